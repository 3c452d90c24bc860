"""One run of a grader that asks. It ends with an outcome, or when it waits for nothing but answers.

In the second case its asks are sent as a record and the run is ended. Once the answers have arrived, another run starts
from the beginning with them. So no process waits for a model.

A later run goes through the same steps: it takes no known answer before it waits for nothing but answers. If an ask
that failed returned at once, the grader could end before it has repeated the other asks of the round, or see their
errors in another order.
"""

import sys
from collections.abc import Coroutine
from contextvars import Context, copy_context
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from gradebox.asks.asking import Pause, using
from gradebox.asks.errors import ModelError
from sandbox.guest.child import missing_loop
from sandbox.guest.child.encode_outcome import read_exception
from sandbox.guest.child.output import ChildOutput
from sandbox.guest.child.read_thread import BadInput, LineReader
from sandbox.guest.child.replay import Replay, WaitsForAnswers
from sandbox.guest.child.runnable_grader import Fields, Graded, ReadReturn, RunnableGrader
from sandbox.guest.child.seeding import reseed
from sandbox.guest.protocol.fields import MESSAGE, REQUESTS, encode, pack_requests
from sandbox.guest.protocol.frames import ANSWERED
from sandbox.guest.protocol.grader_limits import GraderLimits
from sandbox.guest.protocol.records import ASKED, BAD_INPUT, NO_COMPLETION, NOT_APPLICABLE, SCORED

if TYPE_CHECKING:
    from sandbox.guest.child.asking_loop import AskingLoop

_NOT_REPEATED = ModelError(
    "not_repeated",
    "`grade` did not ask again what it had asked before: a run that waited for an answer starts again from the "
    "beginning, so what it asks must not depend on the clock, on unseeded randomness, or on files. Put these into "
    "`await once(fn)`",
)


class _LoopNeeded(BaseException):
    """`grade` waits for something that only an event loop provides, so it is run again in one."""


class AskingRun:
    """Runs a grader that asks. In completion isolation it is created before the fork, to save work in the child."""

    def __init__(
        self,
        grader: RunnableGrader,
        limits: GraderLimits,
        reader: LineReader,
        read_return: ReadReturn,
        output: ChildOutput,
    ) -> None:
        self._grader = grader
        self._limits = limits
        self._reader = reader
        self._kept: list[Coroutine[Any, Any, object]] = []
        self._paused: tuple[Coroutine[Any, Any, object], Context] | None = None
        self._loop: AskingLoop | None = None
        self._read_return = read_return
        self._output = output
        self.has_repeated = True

    def grade(self, line: bytes) -> Graded:
        """Runs `grade` once. Afterwards `has_repeated` is whether the run has repeated all asks that were answered."""
        answers, _, thread_line = line.partition(ANSWERED)
        self.has_repeated = True
        try:
            thread = self._reader.read(thread_line)
        except BadInput as problem:
            return BAD_INPUT, 0, 0.0, [(MESSAGE, encode(str(problem), self._limits.text_bytes))]
        threads = thread if self._grader.groups else [thread]
        flag = 0 if all(each.completion() is not None for each in threads) else NO_COMPLETION
        started = perf_counter_ns()
        try:
            kind, score, fields = self._run(thread, answers)
        except _LoopNeeded:
            self._grader.needs_loop = True
            self._output.begin_again()
            return self.grade(line)  # with another thread, because `grade` may have changed this one
        return kind | flag, (perf_counter_ns() - started) // 1000, score, fields

    def end(self) -> bool:
        """Ends the unfinished part of the last run. Returns whether nothing of it is left.

        Code of that run that continues in spite of this could change later results.
        """
        paused, self._paused = self._paused, None
        if self._loop is not None:
            return self._loop.end_tasks()
        if paused is None:
            return True
        coroutine, context = paused
        try:
            context.run(coroutine.close)
        except BaseException:  # noqa: BLE001  # a `finally` of the grader may raise, or wait for an answer
            self._kept.append(coroutine)
            return False
        return True

    def _run(self, thread: Any, answers: bytes) -> tuple[int, float, Fields]:
        most_bytes = self._limits.text_bytes
        replay = Replay(answers)
        if "random" in sys.modules:
            reseed()
        try:
            with using(replay):
                value = self._await(self._grader.grade(thread), replay)
            score, fields = self._read_return(value, most_bytes, self._limits.details_bytes)
            kind = SCORED
        except WaitsForAnswers:
            kind, score, fields = ASKED, 0.0, [(REQUESTS, pack_requests(replay.requests))]
        except _LoopNeeded:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever a grader raises is its outcome
            score = 0.0
            kind, fields = read_exception(error, self._grader.text, most_bytes)
        if kind in (SCORED, ASKED, NOT_APPLICABLE) and not replay.is_used_up:
            self.has_repeated = False
            score = 0.0
            kind, fields = read_exception(_NOT_REPEATED, self._grader.text, most_bytes)
        return kind, score, fields

    def _await(self, coroutine: Coroutine[Any, Any, object], replay: Replay) -> object:
        """Returns the result of `grade`. Raises what it raises, or WaitsForAnswers if it waits only for answers.

        An event loop takes longer than most runs, and its modules make each fork more expensive. Most graders need
        none.
        """
        if self._grader.needs_loop:
            from sandbox.guest.child.asking_loop import AskingLoop

            if self._loop is None:
                self._loop = AskingLoop()
            return self._loop.run(coroutine, replay)
        context = copy_context()  # so that no later run finds its context variables
        try:
            paused = context.run(coroutine.send, None)
            while type(paused) is Pause and not replay.waiting:
                paused = context.run(coroutine.send, None)
        except StopIteration as ended:
            if missing_loop.asked:
                raise _LoopNeeded from None
            return ended.value
        except BaseException:
            if missing_loop.asked:
                raise _LoopNeeded from None
            raise
        if type(paused) is Pause and not missing_loop.asked:
            self._paused = coroutine, context
            raise WaitsForAnswers
        self._kept.append(coroutine)  # closing it would run code of the grader without the loop that it needs
        raise _LoopNeeded
