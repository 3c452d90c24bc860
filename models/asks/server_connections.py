"""Limits the concurrent asks of one project in one process: each needs a connection, and so a descriptor."""

import asyncio
import resource
from weakref import WeakValueDictionary

_PART = 4  # a project gets 1/4 of the process's descriptors: the rest is for other projects, sandboxes and Redis


class ServerConnections:
    """The semaphores of the projects, for one event loop."""

    def __init__(self) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = max(1, soft // _PART)
        self._projects: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, project: str) -> asyncio.Semaphore:
        """Return the semaphore to hold while a project's ask is sent. It is freed with the last ask that uses it."""
        places = self._projects.get(project)
        if places is None:
            places = self._projects[project] = asyncio.Semaphore(self._most)
        return places
