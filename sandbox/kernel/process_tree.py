"""The processes below a process, and what /proc says of each."""

from contextlib import suppress
from pathlib import Path

_MOST_PROCESSES = 1024  # more than a sandbox may have


def family(pid: int) -> list[int]:
    """A process and its descendants; bounded, in case they fork faster than they can be followed."""
    found = [pid]
    for current in found:  # the list grows during the loop
        with suppress(OSError):  # the process has exited meanwhile
            for children in Path(f"/proc/{current}/task").glob("*/children"):
                found.extend(map(int, read_proc(children).split()))
        if len(found) > _MOST_PROCESSES:
            break
    return found


def read_proc(path: Path) -> str:
    """The content of a file in /proc; empty if the process has exited meanwhile. A process may have any bytes as its
    name, which `stat` contains.
    """
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
