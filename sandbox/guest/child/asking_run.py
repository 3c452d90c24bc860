"""One run of a grader that asks. It ends with an outcome, or when it waits for nothing but answers.

In the second case its asks are sent as a record and the run is ended. Once the answers have arrived, another run starts
from the beginning with them. So no process waits for a model.

A later run goes through the same steps: it takes no known answer before it waits for nothing but answers. If an ask
that failed returned at once, the grader could end before it has repeated the other asks of the round, or see their
errors in another order.
"""

import json
import sys
from collections.abc import Coroutine
from contextvars import Context, copy_context
from hashlib import sha256
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from gradebox.asks.asking import MOST_ASKS, Answer, Pause, note_used, using
from gradebox.asks.errors import ModelError
from sandbox.guest.child import missing_loop
from sandbox.guest.child.encode_outcome import read_exception
from sandbox.guest.child.main import ReadReturn, RunnableGrader
from sandbox.guest.child.read_thread import BadInput, LineReader
from sandbox.guest.child.seeding import reseed
from sandbox.guest.protocol.fields import MESSAGE, REQUESTS, encode, pack_requests
from sandbox.guest.protocol.frames import ANSWERED
from sandbox.guest.protocol.grader_limits import GraderLimits
from sandbox.guest.protocol.records import ASKED, BAD_INPUT, NO_COMPLETION, NOT_APPLICABLE, SCORED

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

    from sandbox.guest.child.asking_loop import AskingLoop

Fields = list[tuple[int, bytes]]
Record = tuple[int, int, float, Fields]
"""The parts of a record: kind, microseconds, score, fields."""

_NOT_REPEATED = ModelError(
    "not_repeated",
    "`grade` did not ask again what it had asked before: a run that waited for an answer starts again from the "
    "beginning, so what it asks must not depend on the clock, on unseeded randomness, or on files. Put these into "
    "`await once(fn)`",
)


class WaitsForAnswers(BaseException):
    """Ends a run for now, because it waits for nothing but answers."""


class _LoopNeeded(BaseException):
    """`grade` waits for something that only an event loop provides, so it is run again in one."""


class Replay:
    """Replays known answers. Each belongs to a request and its position among identical requests: first, second, …"""

    def __init__(self, answers: bytes) -> None:
        """`answers` is a JSON list of pairs, the digest of a request and its answer, in the order of the asks.

        The pair of a kept value is an empty digest and the request that kept the value.
        """
        self._known: dict[str, list[Answer]] = {}
        for digest, answer in json.loads(answers) if answers != b"[]" else ():
            self._known.setdefault(digest or answer["name"], []).append(answer)
        self._made = 0
        self._held: list[tuple[Future[Answer], Answer]] = []
        self.loop: AbstractEventLoop | None = None  # that of the run, if it has one
        self.requests: list[bytes] = []
        self.waiting = 0  # asks without a known answer that the grader waits for

    @property
    def is_used_up(self) -> bool:
        """Whether this run has used all known answers and values."""
        return not any(self._known.values())

    @property
    def is_asking(self) -> bool:
        """Whether an ask has not returned."""
        return bool(self.waiting or self._held)

    async def answer(self, request: bytes) -> Answer:
        """Returns a known answer when the grader waits for nothing else; waits for another until this run is ended."""
        self._count()
        self._check_loop()
        if self._known and (known := self._known.get(digest := sha256(request).hexdigest())):
            note_used(digest)
            return await self._held_until_idle(known.pop(0))
        self.requests.append(request)
        self.waiting += 1
        try:
            if self.loop is None:
                await Pause()
            from asyncio import get_running_loop

            found: Answer = await get_running_loop().create_future()
        finally:
            self.waiting -= 1
        return found

    def deliver(self) -> bool:
        """Lets the asks with a known answer return. Returns false if there are none, or an ask has no answer yet."""
        if self.waiting or not self._held:
            return False
        held, self._held = self._held, []
        for future, answer in held:
            if not future.done():  # it is if the ask was cancelled
                future.set_result(answer)
        return True

    async def _held_until_idle(self, answer: Answer) -> Answer:
        if self.loop is None:
            await Pause()
            return answer
        from asyncio import get_running_loop

        future: Future[Answer] = get_running_loop().create_future()
        self._held.append((future, answer))
        return await future

    def remembered(self, name: str) -> tuple[bool, Any]:
        """Whether an earlier run has kept a value of this name that this run has not used yet, and the value. With it,
        the answers count as used that led to it.
        """
        self._count()
        known = self._known.get(name)
        if not known:
            return False, None
        kept = known.pop(0)
        led_to_it = kept.get("used", ())  # a run that began before an upgrade has none
        note_used(name, *led_to_it)
        for used in led_to_it:
            if self._known.get(used):
                self._known[used].pop(0)
        return True, kept["value"]

    def remember(self, request: bytes) -> None:
        """Keeps a value for later runs."""
        self.requests.append(request)

    def _check_loop(self) -> None:
        """Raises RuntimeError in another event loop, such as that of `asyncio.run` in a thread: whether that one waits
        only for answers is not seen, so the run would not end.
        """
        if self.loop is None:
            return
        from asyncio import get_running_loop

        if get_running_loop() is not self.loop:
            raise RuntimeError(
                "a model, an endpoint or a grader is asked in an event loop of its own, as by `asyncio.run` in a "
                "thread: await it in `grade` itself"
            )

    def _count(self) -> None:
        self._made += 1
        if self._made > MOST_ASKS:
            raise ModelError("too_much", f"`grade` asked more than {MOST_ASKS} times for one completion: ask less")


class AskingRun:
    """Runs a grader that asks. In completion isolation it is created before the fork, to save work in the child."""

    def __init__(
        self, grader: RunnableGrader, limits: GraderLimits, reader: LineReader, read_return: ReadReturn
    ) -> None:
        self._grader = grader
        self._limits = limits
        self._reader = reader
        self._kept: list[Coroutine[Any, Any, object]] = []
        self._paused: tuple[Coroutine[Any, Any, object], Context] | None = None
        self._loop: AskingLoop | None = None
        self._read_return = read_return
        self.has_repeated = True

    def grade(self, line: bytes) -> Record:
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
