"""Loads a built-in grader and grades a few threads with it, before the first fork.

Python does some work only once in a process: it specialises bytecode, fills caches, binds symbols. After the dry run
the results are in pages that all children share. Without it, each child would repeat the work, and copied pages are
most of the cost of a short-lived child. A waiting template repeats the dry run, so that it has made its copies of pages
before a request waits for them.
"""

import _socket as socket  # the C module: importing `socket` costs a cold sandbox 3 ms
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, cast

from sandbox.guest.child.main import SHARE, Ends, GradingLoop
from sandbox.guest.child.output import ChildOutput
from sandbox.guest.child.read_thread import ThreadReader
from sandbox.guest.child.thread_decoder import ThreadDecoder
from sandbox.guest.protocol.grader_limits import GraderLimits
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
_TIMES = 32  # CPython 3.11 specialises code that has run eight times, and examines loops twice as long
_SERVED = 10


class _Rehearsed:
    needs_loop = has_own_loop = False
    groups = False
    asks = False
    touches_system = False
    grade: Callable[[object], Coroutine[Any, Any, object]]

    def __init__(self, candidate: Candidate) -> None:
        self.text = candidate.text
        self.grade = cast("Callable[[object], Coroutine[Any, Any, object]]", candidate.grade)


def _lines(results: int) -> Iterator[tuple[bytes, int]]:
    yield _LINE, results


def rehearse(decoder: ThreadDecoder) -> None:
    """Does the work of a template and a child in this process, in about four milliseconds. It leaves garbage."""
    grader = _Rehearsed(_load())
    output = ChildOutput()
    limits = GraderLimits(*[0] * len(GraderLimits._fields))
    reader = ThreadReader(len(_LINE), 8, decoder)
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
    for check in BEFORE_TEST_RUN:
        check(candidate)
    del sys.modules[MODULE]
    return candidate


def _serve(child: GradingLoop, results: int) -> None:
    """Serves one line as in batch isolation. It creates no file, because the supervisor may be counting the files."""
    ours, theirs = socket.socketpair()
    ours.send(SHARE.pack(1, 0, len(_LINE), False, False, 0) + _LINE)
    ours.close()
    with suppress(BrokenPipeError):  # the end that would receive DONE is closed
        child.serve(Ends(theirs.fileno(), results))
    theirs.close()
