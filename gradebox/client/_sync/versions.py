# Made from gradebox/client/_async by scripts/unasync. Do not edit it: edit what it is made from.
"""All versions of a grader, of which an answer may hold some."""

from gradebox.client import calls
from gradebox.client._sync.transport import Transport
from gradebox.schemas import Version


def versions(transport: Transport, project: str, key: str) -> list[Version]:
    """They, oldest first."""
    found, after = list[Version](), 0
    while (more := transport.send(calls.list_versions(project, key, after))) and more[-1].number > after:
        found, after = found + more, more[-1].number
    return found
