"""API keys and projects. Most methods need a key that manages every project."""

from collections.abc import Sequence
from typing import Unpack

from gradebox.client._async.transport import AsyncTransport
from gradebox.client.calls import access_calls
from gradebox.client.calls.access_calls import LimitOptions
from gradebox.errors import GradeboxError
from gradebox.frame import Listing
from gradebox.schemas import KEY_COLUMNS, ApiKey, Project, ProjectLimits, Role


class AsyncKeys:
    """The API keys of the service."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, name: str, projects: Sequence[str] = ("default",), role: Role = "manage") -> ApiKey:
        """Creates an API key. This answer is the only one that has its `secret`.

        Args:
            name: who or what the key is for.
            projects: the projects that the key covers; "*" means all.
            role: `read`; `score`, which may also score; or `manage`, which may also change graders and batches.
        """
        return await self._transport.send(access_calls.create_key(name, projects, role))

    async def list(self) -> Listing[ApiKey]:
        """All keys, without their secrets."""
        found = await self._transport.send(access_calls.list_keys())
        return Listing(found, KEY_COLUMNS)

    async def rotate(self, key: str) -> ApiKey:
        """Replaces a key by a new one with the same name, projects and role, and revokes the old one.

        This answer is the only one that has the `secret` of the new key. If `key` is the id of the client's own key,
        the client continues with the new one.

        Raises:
            GradeboxError: there is no valid key with this id, or the new key was created and the old one could not be
                revoked.
        """
        old = next((one for one in await self.list() if one.id == key and not one.revoked), None)
        if old is None:
            raise GradeboxError(f"there is no valid API key {key!r}: list the keys to see their ids")
        new = await self.create(old.name, old.projects, old.role)
        self._transport.rules.auth.take_over(old.id, new.secret or "")
        try:
            await self.revoke(old.id)
        except GradeboxError as error:
            raise GradeboxError(f"key {new.id} was made, and {old.id} was perhaps not revoked: {error}") from error
        return new

    async def revoke(self, key: str) -> None:
        """Revokes the key with this id."""
        await self._transport.send(access_calls.revoke_key(key))


class AsyncProjects:
    """The projects that the API key covers."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, key: str) -> Project:
        """Creates a project."""
        return await self._transport.send(access_calls.create_project(key))

    async def list(self) -> Listing[Project]:
        """The projects that the API key covers."""
        found = await self._transport.send(access_calls.list_projects())
        return Listing(found, ("key", "created_at"))

    async def limits(self, key: str) -> ProjectLimits:
        """The limits of the project with this key, and the defaults of the service."""
        return await self._transport.send(access_calls.get_limits(key))

    async def set_limits(self, key: str, **limits: Unpack[LimitOptions]) -> ProjectLimits:
        """Gives a project other limits than the service's, such as `batch_threads=5_000_000`. The others stay."""
        return await self._transport.send(access_calls.change_limits(key, limits))

    async def reset_limits(self, key: str) -> None:
        """Removes the project's own limits, so that it has those of the service."""
        await self._transport.send(access_calls.delete_limits(key))
