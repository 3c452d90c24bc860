"""Grades a few threads of our own before the first fork.

What Python does only once for all (it specialises bytecode, fills caches, binds symbols) then lies in pages that all
children share. Without this, each would do it again, and most of what a short-lived child costs is its own copies.
"""

import _socket as socket  # what `socket` wraps: importing that takes a cold sandbox 3 ms
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

from sandbox.guest.child import SHARE, Child, Ends
from sandbox.guest.frames import Limits
from sandbox.guest.lines import Reader
from sandbox.guest.output import Output
from validators import BEFORE_TEST_RUN
from validators.candidate import Candidate

_LINE = b'{"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}], "metadata": {}}\n'
_SOURCE = b"async def grade(thread: StringThread) -> float:\n    return 1.0\n"
_WITHOUT_EXECUTION = 3  # the checks that only look
_TIMES = 32  # CPython 3.11 specialises what has run eight times, and looks at loops twice as long
_SERVED = 10


class _Rehearsed:
    text = ""
    needs_loop = False
    touches_system = False
    grade: Callable[[object], Coroutine[object, object, object]]

    def __init__(self) -> None:
        self.grade = _grade


def _lines(results: int) -> Iterator[tuple[bytes, int]]:
    yield _LINE, results


async def _grade(thread: object) -> float:
    return 1.0


def rehearse(parse: Callable[[bytes], Any]) -> None:
    """Does what a template and a child do, in this process. It takes some two milliseconds."""
    candidate = Candidate(_SOURCE)
    for _, check in BEFORE_TEST_RUN[:_WITHOUT_EXECUTION]:
        check(candidate)
    output = Output()
    limits = Limits(*[0] * len(Limits._fields))
    reader = Reader(len(_LINE), 8, parse)
    single, serving = (Child(_Rehearsed(), limits, reader, output) for _ in range(2))
    output.leave_to_supervisor(0)
    told, results = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for _ in range(_TIMES):
        single.grade_one(_lines(results).__next__, last=False)
    for _ in range(_SERVED):
        _serve(serving, results)
    for descriptor in (told, results):
        os.close(descriptor)


def _serve(child: Child, results: int) -> None:
    """As in batch isolation. It makes no file: somebody may be counting those that there are."""
    ours, theirs = socket.socketpair()
    ours.send(SHARE.pack(1, 0, len(_LINE), False, False) + _LINE)
    ours.close()
    with suppress(BrokenPipeError):  # nobody hears that it is done
        child.serve(Ends(theirs.fileno(), results))
    theirs.close()
