"""Where a child was when its time was over, and whether it had other threads, from what the handler of `faulthandler`
printed.

The handler is installed by the template before the first fork, so it costs no completion anything. A grader can remove
it or print the same: then the place in its own error is missing or wrong, or its completion is graded a second time.
"""

import os
import re
from contextlib import suppress
from time import monotonic, sleep

from sandbox.guest.child import output
from sandbox.guest.supervisor.processes import GraderProcesses
from sandbox.guest.template.main import TELL_PLACE
from validators.candidate import FILENAME

_FRAME = re.compile(rf'  File "{re.escape(FILENAME)}", line ([0-9]{{1,6}}) in '.encode())
_WAIT_S = 0.1  # for the handler to print
_PAUSE_S = 0.004  # between its lines it takes less
_CHARACTERS = 100  # of a line that is quoted


def ask(processes: GraderProcesses, printed: int) -> None:
    """Makes the child print where it is, and waits until it has done so, but not for long: others may have the
    processors, and it may have closed the pipe.
    """
    before = seen = output.waiting(printed)
    deadline = monotonic() + _WAIT_S
    with suppress(OSError):  # it has exited
        os.kill(processes.child_pid(), TELL_PLACE)
        while monotonic() < deadline:
            sleep(_PAUSE_S)
            seen, last = output.waiting(printed), seen
            if before != seen == last:
                return


def has_threads(printed: bytes) -> bool:
    """Whether the handler printed that the child had threads besides the one that grades."""
    return len(output.PLACE.findall(printed)) > 1


def split(printed: bytes, source: bytes) -> tuple[bytes, str]:
    """Splits off what the handler printed. Returns the rest, and the line of the grader as text, "" if not known."""
    # The place of the thread which grades is the last: the first thread of a process is its oldest.
    heads = list(output.PLACE.finditer(printed))
    if not heads:
        return printed, ""
    own = printed[: heads[0].start()]
    lines = source.decode("utf-8", "replace").splitlines()
    found = _FRAME.search(printed, heads[-1].end())
    number = int(found[1]) if found else 0
    if not 0 < number <= len(lines):
        return own, ""
    return own, f". It was in line {number}, `{lines[number - 1].strip()[:_CHARACTERS]}`"
