"""API keys and projects: for keys that manage every project."""

from collections.abc import Sequence

from gradebox.client import calls
from gradebox.client._async.transport import AsyncTransport
from gradebox.schemas import ApiKey, Project, Role


class AsyncKeys:
    """The API keys of the service."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, name: str, projects: Sequence[str] = ("default",), role: Role = "manage") -> ApiKey:
        """Makes a key for these projects; "*" stands for all. Its `secret` is shown this once.

        `role`: `read`, `score` (reads too, and has things scored) or `manage` (and changes graders and batches).
        """
        return await self._transport.send(calls.create_key(name, projects, role))

    async def list(self) -> list[ApiKey]:
        """All keys, without their secrets."""
        return await self._transport.send(calls.list_keys())

    async def revoke(self, key: str) -> None:
        """Revokes a key, named by its id."""
        await self._transport.send(calls.revoke_key(key))


class AsyncProjects:
    """The projects that the API key covers."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, key: str) -> Project:
        """Makes a project."""
        return await self._transport.send(calls.create_project(key))

    async def list(self) -> list[Project]:
        """The projects there are."""
        return await self._transport.send(calls.list_projects())
