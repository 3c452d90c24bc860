"""Loads a grader of our own and grades a few threads with it, before the first fork.

What Python does only once for all (it specialises bytecode, fills caches, binds symbols) then lies in pages that all
children share. Without this, each would do it again, and most of what a short-lived child costs is its own copies. A
template that waits does it once more, so that it has its copies before somebody waits for them.
"""

import _socket as socket  # what `socket` wraps: importing that takes a cold sandbox 3 ms
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, cast

from sandbox.guest.child.main import SHARE, Ends, GradingLoop
from sandbox.guest.child.output import ChildOutput
from sandbox.guest.child.read_thread import ThreadReader
from sandbox.guest.protocol.frames import GraderLimits
from validators import BEFORE_TEST_RUN
from validators.candidate import MODULE, Candidate

_LINE = (
    b'{"id": "a", "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}], '
    b'"metadata": {}}\n'
)
_SOURCE = b"""
import re

NUMBER = re.compile(r"[0-9]+")


async def grade(thread: StringThread) -> float:
    found = NUMBER.search(thread.completion())
    return float(found.group()) if found else 0.0
"""
_TIMES = 32  # CPython 3.11 specialises what has run eight times, and looks at loops twice as long
_SERVED = 10


class _Rehearsed:
    needs_loop = False
    groups = False
    asks = False
    touches_system = False
    grade: Callable[[object], Coroutine[Any, Any, object]]

    def __init__(self, candidate: Candidate) -> None:
        self.text = candidate.text
        self.grade = cast("Callable[[object], Coroutine[Any, Any, object]]", candidate.grade)


def _lines(results: int) -> Iterator[tuple[bytes, int]]:
    yield _LINE, results


def rehearse(parse: Callable[[bytes], Any]) -> None:
    """Does what a template and a child do, in this process, in some four milliseconds. It leaves garbage."""
    grader = _Rehearsed(_load())
    output = ChildOutput()
    limits = GraderLimits(*[0] * len(GraderLimits._fields))
    reader = ThreadReader(len(_LINE), 8, parse)
    single, serving = (GradingLoop(grader, limits, reader, output) for _ in range(2))
    output.leave_to_supervisor(0)
    told, results = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for _ in range(_TIMES):
        single.grade_one(_lines(results).__next__, last=False)
    for _ in range(_SERVED):
        _serve(serving, results)
    for descriptor in (told, results):
        os.close(descriptor)
    sys.modules["re"].purge()  # the grader has imported it


def _load() -> Candidate:
    candidate = Candidate(_SOURCE)
    for _, check in BEFORE_TEST_RUN:
        check(candidate)
    del sys.modules[MODULE]
    return candidate


def _serve(child: GradingLoop, results: int) -> None:
    """As in batch isolation. It makes no file: somebody may be counting those that there are."""
    ours, theirs = socket.socketpair()
    ours.send(SHARE.pack(1, 0, len(_LINE), False, False, 0) + _LINE)
    ours.close()
    with suppress(BrokenPipeError):  # nobody hears that it is done
        child.serve(Ends(theirs.fileno(), results))
    theirs.close()
