"""The versions of a grader, and the environment of the next version."""

from gradebox.client import calls
from gradebox.client._async.transport import AsyncTransport
from gradebox.client.versions import Function
from gradebox.schemas import Version


async def versions(transport: AsyncTransport, project: str, key: str) -> list[Version]:
    """All versions of a grader, oldest first. One answer may hold only some of them."""
    found, after = list[Version](), 0
    while (more := await transport.send(calls.list_versions(project, key, after))) and more[-1].number > after:
        found, after = found + more, more[-1].number
    return found


async def environment_of(
    transport: AsyncTransport, project: str, key: str, fn: Function | None, environment: str | None
) -> str | None:
    """The environment for extracting a function as a new version; by default that of the newest version.

    Returns `environment` unchanged for a source or without a function, since extraction is not needed then.
    """
    if environment is not None or fn is None or isinstance(fn, str):
        return environment
    newest = await transport.send(calls.graders.get(project, key))
    return newest.environment.label if newest.environment else None
