"""How many asks one project may have sent at one time from one process: each is a connection, and so a descriptor."""

import asyncio
import resource
from weakref import WeakValueDictionary

_PART = 4  # of the descriptors that the process may have: the others are for other projects, sandboxes and Redis


class ServerConnections:
    """For one event loop."""

    def __init__(self) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = max(1, soft // _PART)
        self._projects: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, project: str) -> asyncio.Semaphore:
        """To be held while a project's ask is sent. It is forgotten with the last ask that holds it or waits for it."""
        places = self._projects.get(project)
        if places is None:
            places = self._projects[project] = asyncio.Semaphore(self._most)
        return places
