"""Scores threads with a grader that asks: steps lines through a sandbox, has their asks answered, and steps them again.
A sandbox is held only during a step, never while waiting for answers.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from heapq import heappop, heappush
from queue import Empty, SimpleQueue
from time import monotonic
from traceback import format_tb

from msgspec.structs import replace
from redis.exceptions import RedisError

from gradebox.asks.asking import KNOWN_BYTES, MOST_ASKS, MOST_ROUNDS, REQUEST_BYTES
from gradebox.outcome import AskFailure, Outcome, OutcomeError, Spent, sum_of
from models.asks.ask_context import AskContext
from models.asks.asker import Asker
from models.replies.answer_json import Answer, failed
from sandbox.errors import InfrastructureError
from sandbox.grading.grading import NO_SANDBOX, Grading
from sandbox.grading.grading_call import Stop
from sandbox.grading.outcomes import Asked
from sandbox.grading.session import count_lines
from sandbox.grading.thread_ids import read_ids

Lend = Callable[[], AbstractContextManager[Grading]]
"""Lends a sandbox with the grader."""

KnownAnswers = dict[tuple[int, bytes], deque[Future[Answer]]]
"""The answers to equal asks of a thread, by its position and the request, in the order of the asks."""

_STEP_LINES = 64
_STEP_BYTES = 8 << 20  # of lines with their answers
_HELD_BYTES = 64 << 20  # of asks and answers: above this, no line is started, and only one line asks at a time
_ANSWER_BYTES = 64 << 10  # assumed size of a pending answer
_GATHER_S = 0.06  # wait to step single lines together: acquiring a sandbox takes some milliseconds
_LOOK_S = 0.25  # between two calls of `stop`
_FAULT = "the service failed at this ask, and its log says why: score it again, or tell its operator"
_ONCE = b'{"ask":"once",'

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Line:
    """A thread and its state. `answers` are in the form that the sandbox reads, and `known` is their size in bytes;
    `waiting` are pending, and count as `pending` bytes.
    """

    position: int
    data: memoryview
    answers: list[bytes] = field(default_factory=list)
    waiting: "list[tuple[bytes, Future[Answer] | None]]" = field(default_factory=list)
    rounds: int = 0
    known: int = 0
    pending: int = 0
    run_ms: float = 0.0
    spent: Spent = field(default_factory=Spent)

    @property
    def is_answered(self) -> bool:
        """Whether no answer is pending."""
        return all(answer is None or answer.done() for _, answer in self.waiting)

    def take_answers(self) -> None:
        """Move the answers that arrived to `answers`, in the order of the asks.

        Raises:
            InfrastructureError: an ask was cancelled.
        """
        for request, future in self.waiting:
            if future is None:
                self.answers.append(b'["",%b]' % request)
                self.known += len(request)
                continue
            try:
                answer = future.result()
            except CancelledError as error:
                raise InfrastructureError("an ask of a grader was aborted, because the service is stopping") from error
            except (InfrastructureError, OSError, RedisError):
                raise
            except Exception as error:  # noqa: BLE001  # a fault of ours at one ask must not affect other completions
                # The exception's message is not logged: it may quote a tenant.
                where = "".join(format_tb(error.__traceback__))
                _log.error("an ask failed because of an error in the service, %s:\n%s", type(error).__name__, where)
                answer = failed("failed", _FAULT, retryable=True)
            self.answers.append(b'["%b",%b]' % (sha256(request).hexdigest().encode(), answer.body))
            self.known += len(answer.body)
            self.spent = sum_of([self.spent, answer.spent])
        self.waiting = []
        self.pending = 0


class AskingScorer:
    """Made for one grader.

    Attributes:
        traces: the traces of the last call, by index.
        later: the outcomes of the last call that it did not return, because an earlier thread has none.
    """

    def __init__(self, lend: Lend, asker: Asker, context: AskContext) -> None:
        self._lend = lend
        self._asker = asker
        self._context = context
        self._earlier: KnownAnswers = {}
        self.traces: dict[int, str] = {}
        self.later: list[Outcome] = []

    def score(
        self, payload: bytes, first_index: int, label: str, lines: int | None = None, *, stop: Stop | None = None
    ) -> list[Outcome]:
        """Like `Grading.score`, with the same exceptions. When `stop` returns true, open asks are cancelled, and the
        result is the outcomes of the leading threads that all have one.

        In a validation, asks that the call before made for the same thread are not made again.
        """
        count = count_lines(payload) if lines is None else lines
        context = self._context._replace(since=monotonic())
        call = _Call(payload, count, first_index, label, stop, self._asker, context, self._earlier)
        try:
            call.run(self._lend)
        finally:
            call.give_up()
        if context.timeouts is not None:
            self._earlier = call.known_answers
        self.traces = call.traces
        self.later = call.later()
        return call.outcomes()


class _Call:
    """One call of `AskingScorer.score`."""

    def __init__(
        self,
        payload: bytes,
        count: int,
        first_index: int,
        label: str,
        stop: Stop | None,
        asker: Asker,
        context: AskContext,
        earlier: KnownAnswers,
    ) -> None:
        """`earlier` are the answers of the call before, which replace asks."""
        self._ids = read_ids(payload, count)
        self._fresh = deque(_Line(number, data) for number, data in enumerate(lines_of(payload, count)))
        self._ready: deque[_Line] = deque()
        self._asking: dict[int, _Line] = {}
        self._held_back: list[tuple[int, _Line, Sequence[bytes]]] = []  # a heap
        self._answered: SimpleQueue[int] = SimpleQueue()
        self._count = count
        self._first_index = first_index
        self._label = label
        self._stop = stop
        self._asker = asker
        self._context = context
        self._later_context = context._replace(has_asked=True)
        self._held = 0
        self._earlier = earlier
        self.known_answers: KnownAnswers = {}
        self._known_bytes = 0
        self._first_left = 0
        self._is_over = False
        self._outcomes: dict[int, Outcome] = {}
        self.traces: dict[int, str] = {}

    def outcomes(self) -> list[Outcome]:
        """The outcomes of the leading threads that all have one."""
        return [self._outcomes[number] for number in range(self._done())]

    def later(self) -> list[Outcome]:
        """The outcomes of the other threads."""
        done = self._done()
        return [outcome for position, outcome in self._outcomes.items() if position > done]

    def run(self, lend: Lend) -> None:
        """Run until each thread has an outcome, or no more are needed."""
        try:
            while len(self._outcomes) < self._count and not self._should_stop():
                self._send_held_back()
                if lines := self._next_lines():
                    with lend() as grading:
                        self._step(grading, lines)
                else:
                    self._await_answers(_LOOK_S)
        except (InfrastructureError, OSError):
            if not self._done():
                raise
            self._fail_rest()

    def give_up(self) -> None:
        """Cancel the asks without an answer."""
        self._is_over = True
        for line in self._asking.values():
            for _, future in line.waiting:
                if future is not None:
                    future.cancel()

    def _next_lines(self) -> list[_Line]:
        """The lines of the next step: answered lines first, then new ones."""
        self._await_answers(0)
        began = monotonic()
        while 0 < len(self._ready) + self._room() < _STEP_LINES and self._asking and monotonic() - began < _GATHER_S:
            self._await_answers(_GATHER_S)
        room = self._room()
        lines: list[_Line] = []
        size = 0
        while len(lines) < _STEP_LINES and size < _STEP_BYTES and (self._ready or room):
            if self._ready:
                line = self._ready.popleft()
            else:
                line = self._fresh.popleft()
                room -= 1
            lines.append(line)
            size += len(line.data) + line.known
        return lines

    def _room(self) -> int:
        """The number of new lines that may be started."""
        if not self._fresh or self._held >= _HELD_BYTES:
            return 0
        return min(self._asker.room(self._context), len(self._fresh))

    def _await_answers(self, seconds: float) -> None:
        """Moves answered lines to `_ready`; waits up to `seconds` for the first."""
        try:
            position = self._answered.get(timeout=seconds) if seconds else self._answered.get_nowait()
            while True:
                line = self._asking.get(position)
                if line is not None and line.is_answered:
                    del self._asking[position]
                    self._take_answers(line)
                position = self._answered.get_nowait()
        except Empty:
            pass

    def _take_answers(self, line: _Line) -> None:
        known, waiting = line.known, line.waiting
        self._held -= known + line.pending
        line.take_answers()
        self._held += line.known
        if self._context.timeouts is not None:
            self._remember(line.position, waiting, line.known - known)
        if line.known <= KNOWN_BYTES:
            self._ready.append(line)
        else:
            message = f"the answers to one completion have more than {KNOWN_BYTES >> 20} MiB: ask for less"
            self._fail(line, "too_much", message)

    def _step(self, grading: Grading, lines: list[_Line]) -> None:
        answers = [b"[%b]" % b",".join(line.answers) for line in lines]
        runs = grading.step([line.data for line in lines], answers, self._label, stop=self._stopped)
        for line, run in zip(lines, runs, strict=False):
            line.run_ms += run.run_ms
            if isinstance(run, Asked):
                self._ask(line, run.requests)
            else:
                self._finish(line, run, grading.traces.get(run.index))
        self._fresh.extendleft(reversed(lines[len(runs) :]))

    def _ask(self, line: _Line, requests: Sequence[bytes]) -> None:
        line.rounds += 1
        if line.rounds > MOST_ROUNDS:
            message = f"`grade` waits for answers more than {MOST_ROUNDS} times for one completion: ask more at once"
            self._fail(line, "too_much", message)
        elif len(line.answers) + len(requests) > MOST_ASKS or max(map(len, requests)) > REQUEST_BYTES:
            message = (
                f"more than {MOST_ASKS} asks for one completion, or one of more than {REQUEST_BYTES} bytes: ask less"
            )
            self._fail(line, "too_much", message)
        else:
            line.pending = sum(map(len, requests))
            self._held += line.pending
            heappush(self._held_back, (line.position, line, requests))

    def _send_held_back(self) -> None:
        """Sends the asks that may be sent: all while few bytes are held; else only those of the first thread, so that
        it can finish.
        """
        if not self._held_back:
            return
        with self._asker.together():
            while self._held_back and (self._held < _HELD_BYTES or not (self._asking or self._ready)):
                _, line, requests = heappop(self._held_back)
                self._begin_asks(line, requests)

    def _begin_asks(self, line: _Line, requests: Sequence[bytes]) -> None:
        context = self._context if line.rounds == 1 else self._later_context
        asked = sum(not request.startswith(_ONCE) for request in requests)
        line.pending += asked * _ANSWER_BYTES
        self._held += asked * _ANSWER_BYTES
        self._asking[line.position] = line
        line.waiting = [
            (request, None if request.startswith(_ONCE) else self._answer(line, request, context))
            for request in requests
        ]
        for _, future in line.waiting:
            if future is not None:
                future.add_done_callback(partial(self._note, line.position))
        if all(future is None for _, future in line.waiting):
            self._answered.put(line.position)

    def _answer(self, line: _Line, request: bytes, context: AskContext) -> Future[Answer]:
        if earlier := self._earlier.get((line.position, request)):
            return earlier.popleft()
        return self._asker.ask(request, context, self._is_wanted)

    def _remember(self, position: int, waiting: Sequence[tuple[bytes, Future[Answer] | None]], size: int) -> None:
        """Keeps answers of this size for the next call. Above a bound, its asks are made again."""
        if self._known_bytes >= _HELD_BYTES:
            return
        self._known_bytes += size + sum(len(request) for request, _ in waiting)
        for request, future in waiting:
            if future is not None:
                self.known_answers.setdefault((position, request), deque()).append(future)

    def _note(self, position: int, _: Future[Answer]) -> None:
        self._answered.put(position)

    def _finish(self, line: _Line, run: Outcome, trace: str | None = None) -> None:
        position = line.position
        self._held -= line.known + line.pending
        spent = line.spent if line.rounds else None
        outcome = replace(
            run, index=self._first_index + position, id=self._ids[position], run_ms=line.run_ms, spent=spent
        )
        self._outcomes[position] = outcome
        if trace:
            self.traces[outcome.index] = trace

    def _fail(self, line: _Line, cause: AskFailure, message: str) -> None:
        self._finish(line, Outcome(0, self._label, None, 0.0, error=OutcomeError("model", message, cause=cause)))

    def _fail_rest(self) -> None:
        """No sandbox is available: gives each thread without an outcome an error."""
        for position in range(self._count):
            if position not in self._outcomes:
                index, identity = self._first_index + position, self._ids[position]
                self._outcomes[position] = Outcome(index, self._label, None, 0.0, identity, error=NO_SANDBOX)

    def _done(self) -> int:
        """The number of leading threads that all have an outcome."""
        while self._first_left in self._outcomes:
            self._first_left += 1
        return self._first_left

    def _should_stop(self) -> bool:
        self._is_over = self._is_over or (self._stop is not None and self._stop(self._done()))
        return self._is_over

    def _stopped(self, _: int) -> bool:
        return self._should_stop()

    def _is_wanted(self) -> bool:
        return not self._is_over


def lines_of(payload: bytes, count: int) -> Iterator[memoryview]:
    """The first `count` lines of a payload, as views."""
    view, start = memoryview(payload), 0
    for _ in range(count):
        end = payload.find(b"\n", start)
        end = len(payload) if end < 0 else end
        yield view[start:end]
        start = end + 1
