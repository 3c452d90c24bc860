# Made from gradebox/client/_async by scripts/unasync. Do not edit it: edit what it is made from.
"""API keys and projects: for keys that manage every project."""

from collections.abc import Sequence

from gradebox.client import calls
from gradebox.client._sync.transport import Transport
from gradebox.schemas import ApiKey, Project, Role


class Keys:
    """The API keys of the service."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, name: str, projects: Sequence[str] = ("default",), role: Role = "manage") -> ApiKey:
        """Makes a key for these projects; "*" stands for all. Its `secret` is shown this once.

        `role`: `read`, `score` (reads too, and has things scored) or `manage` (and changes graders and batches).
        """
        return self._transport.send(calls.create_key(name, projects, role))

    def list(self) -> list[ApiKey]:
        """All keys, without their secrets."""
        return self._transport.send(calls.list_keys())

    def revoke(self, key: str) -> None:
        """Revokes a key, named by its id."""
        self._transport.send(calls.revoke_key(key))


class Projects:
    """The projects that the API key covers."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, key: str) -> Project:
        """Makes a project."""
        return self._transport.send(calls.create_project(key))

    def list(self) -> list[Project]:
        """The projects there are."""
        return self._transport.send(calls.list_projects())
