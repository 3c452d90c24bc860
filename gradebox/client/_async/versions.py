"""All versions of a grader, of which an answer may hold some."""

from gradebox.client import calls
from gradebox.client._async.transport import AsyncTransport
from gradebox.schemas import Version


async def versions(transport: AsyncTransport, project: str, key: str) -> list[Version]:
    """They, oldest first."""
    found, after = list[Version](), 0
    while (more := await transport.send(calls.list_versions(project, key, after))) and more[-1].number > after:
        found, after = found + more, more[-1].number
    return found
