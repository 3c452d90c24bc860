"""The versions of a grader: all of them, of which an answer may hold some, and what the next one is made for."""

from gradebox.client import calls
from gradebox.client._async.transport import AsyncTransport
from gradebox.client.versions import Function
from gradebox.errors import NotFound
from gradebox.schemas import Version


async def versions(transport: AsyncTransport, project: str, key: str) -> list[Version]:
    """They, oldest first."""
    found, after = list[Version](), 0
    while (more := await transport.send(calls.list_versions(project, key, after))) and more[-1].number > after:
        found, after = found + more, more[-1].number
    return found


async def environment_of(
    transport: AsyncTransport, project: str, key: str, fn: Function | None, environment: str | None
) -> str | None:
    """The environment that a function is taken for as a new version: that of the newest, where none is named."""
    if environment is not None or fn is None or isinstance(fn, str):
        return environment
    try:
        newest = await transport.send(calls.get_grader(project, key))
    except NotFound:  # `put` makes it; else the service says so
        return None
    return newest.environment.label if newest.environment else None
