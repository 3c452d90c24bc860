"""Answers graders' asks of models, endpoints and other graders. One per process."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from time import sleep
from typing import TYPE_CHECKING, NamedTuple

from redis.exceptions import RedisError

from gradebox.outcome import Spent
from models import store_calls
from models.asks.ask_context import AskContext
from models.asks.ask_counts import AskCounts
from models.fair_threads import FairThreads
from models.parse_ask import (
    EndpointRequest,
    GraderRequest,
    ModelRequest,
    OnceRequest,
    RequestError,
    RequestTooLarge,
    parse,
)
from models.replies import stand_in_reply
from models.replies.answer_json import Answer, failed, replied
from models.settings import ModelSettings
from storage.connection import is_away
from storage.store import Store

if TYPE_CHECKING:
    from models.asks.server_asks import ServerAsks

ASK_S = 120.0
_NESTED = 4  # levels of graders that ask graders
_GRADERS = 16  # asked graders that run at once, per level
_TOGETHER = 64  # threads that one grader's sandbox scores together
_AHEAD = 64  # asks beyond one per place, so that no place is idle until more are made
_NOTHING = Spent()


IsWanted = Callable[[], bool]
"""Returns whether an answer is still needed. Called on the asker's thread twice a second, so it must not block."""

ScoreOther = Callable[[str, Sequence[bytes], AskContext, IsWanted], list[Answer]]
"""Scores threads, given as JSON, with the grader of this label, on behalf of the grader that asks."""


class _GraderAsk(NamedTuple):
    """An ask of another grader, with its nesting level of graders that ask graders."""

    level: int
    label: str
    thread: bytes
    context: AskContext
    wanted: IsWanted
    answer: Future[Answer]


_gathered = threading.local()  # its `asks`: this thread's asks that are sent at the end of `together`


class Asker:
    """Thread-safe. A thread with an event loop starts with the first ask of a server.

    Attributes:
        score_other: answers asks of other graders.
        counts: metrics of asks of servers.
    """

    def __init__(
        self, store: Store, settings: ModelSettings, ask_s: float = ASK_S, *, waits_for_store: bool = False
    ) -> None:
        """`ask_s` is how long an ask is retried, from when it is first sent; each try may take its server's
        `timeout_s`. With `waits_for_store`, asks wait for a Redis that is away until this is closed; otherwise they
        soon fail, because a person waits for them.
        """
        self.score_other: ScoreOther | None = None
        self.counts = AskCounts()
        self._store = store
        self._settings = settings
        self._ask_s = ask_s
        self._waits_for_store = waits_for_store
        self._lock = threading.Lock()
        self._running: tuple[ServerAsks, asyncio.AbstractEventLoop] | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._sends_no_more = False
        self._level = threading.local()
        self._graders: dict[int, FairThreads[None]] = {}
        self._under_way: Counter[tuple[str, str]] = Counter()

    def ask(self, request: bytes, context: AskContext, wanted: IsWanted) -> Future[Answer]:
        """Return a future of the answer to a request. A failure is an answer too.

        The future is cancelled when the answer is no longer needed, and when the asker is closed.
        """
        if self._sends_no_more:
            return Future()
        try:
            parsed = parse(request)
        except RequestTooLarge as error:
            return done(failed("too_much", str(error)))
        except RequestError as error:
            return done(failed("refused", str(error)))
        if isinstance(parsed, OnceRequest):
            return done(Answer(b'{"reply":%b}' % bytes(parsed.value), _NOTHING))
        asked = parsed.asked
        if asked not in context.asks:
            message = f"the grader may not ask {asked}: name it at module level, so that the version knows what it asks"
            return done(failed("unknown", message))
        if context.stand_in and not isinstance(parsed, GraderRequest):
            return done(replied(stand_in_reply.reply(parsed), Spent(asks=1)))
        if isinstance(parsed, GraderRequest):
            future = self._ask_grader(context.asks[asked] or parsed.name, parsed, context, wanted)
        else:
            future = self._ask_server(parsed, request, context, wanted)
        with self._lock:
            self._under_way[context.project, asked] += 1
        future.add_done_callback(partial(self._end, (context.project, asked)))
        return future

    @contextmanager
    def together(self) -> Iterator[None]:
        """Collect this thread's asks of other graders inside the block, and send them at its end: asks of one grader
        share a sandbox, because acquiring a sandbox takes longer than most scores.
        """
        asks: list[_GraderAsk] = []
        _gathered.asks = asks
        try:
            yield
        finally:
            del _gathered.asks
            self._send(asks)

    def room(self, context: AskContext) -> int:
        """Return how many more asks of this grader are useful. Further asks would wait and only use memory."""
        if self._sends_no_more:
            return 0
        return max(min((self._room(context.project, asked) for asked in context.asks), default=_AHEAD), 0)

    def _room(self, project: str, asked: str) -> int:
        running = self._running
        places = running[0].places(project, asked) if running is not None else 0
        return places + _AHEAD - self._under_way[project, asked]

    @property
    def has_sent(self) -> bool:
        """Whether servers have asks that they have not answered yet."""
        running = self._running
        return running is not None and running[0].has_sent

    def send_no_more(self) -> None:
        """Send servers nothing more: asks wait until they are cancelled, except those that are sent already."""
        self._sends_no_more = True
        running = self._running
        if running is not None:
            running[0].sends_no_more = True

    def close(self) -> None:
        """Cancel all asks, and close all connections."""
        with self._lock:
            self._is_closed = True
            graders = list(self._graders.values())
            if self._running is not None:
                asking, loop = self._running
                loop.call_soon_threadsafe(asking.end)
        for each in graders:
            each.close()
        if self._thread is not None:
            self._thread.join()

    def _end(self, asked: tuple[str, str], _: Future[Answer]) -> None:
        with self._lock:
            self._under_way[asked] -= 1
            if not self._under_way[asked]:
                del self._under_way[asked]

    def _ask_server(
        self, request: ModelRequest | EndpointRequest, data: bytes, context: AskContext, wanted: IsWanted
    ) -> Future[Answer]:
        with self._lock:  # so that the loop cannot end in between
            if self._is_closed:
                return _cancelled()
            asking, loop = self._running or self._begin()
            return asyncio.run_coroutine_threadsafe(asking.answer(request, data, context, wanted), loop)

    def _ask_grader(self, label: str, request: GraderRequest, context: AskContext, wanted: IsWanted) -> Future[Answer]:
        """Each level has its own threads: graders that wait for other graders do not occupy the threads of these."""
        level = getattr(self._level, "number", 0)
        if self.score_other is None:
            return done(failed("unknown", f"no answers are available for grader {label!r} here"))
        if level >= _NESTED:
            return done(failed("too_much", f"graders ask graders {_NESTED} deep, and {label!r} is one more: ask less"))
        with self._lock:
            if self._is_closed:
                return _cancelled()
        future: Future[Answer] = Future()
        ask = _GraderAsk(level, label, bytes(request.thread), context, wanted, future)
        waiting: list[_GraderAsk] | None = getattr(_gathered, "asks", None)
        if waiting is None:
            self._send([ask])
        else:
            waiting.append(ask)
        return future

    def _send(self, asks: Sequence[_GraderAsk]) -> None:
        """Sends asks; those that differ only in their thread are sent together."""
        alike: dict[tuple[int, str, int, IsWanted], list[_GraderAsk]] = {}
        alone: list[list[_GraderAsk]] = []
        for ask in asks:
            if b"\n" in ask.thread:  # threads are joined by newlines, so this one would be read as several
                alone.append([ask])
            else:
                alike.setdefault((ask.level, ask.label, id(ask.context), ask.wanted), []).append(ask)
        for each in alike.values():
            alone += [each[first : first + _TOGETHER] for first in range(0, len(each), _TOGETHER)]
        for part in alone:
            self._submit(part)

    def _submit(self, asks: Sequence[_GraderAsk]) -> None:
        level = asks[0].level
        with self._lock:
            if self._is_closed:
                scored: Future[None] = Future()
                scored.cancel()
            else:
                graders = self._graders.get(level)
                if graders is None:
                    graders = self._graders[level] = FairThreads(f"asked-graders-{level}", _GRADERS)
                scored = graders.submit(asks[0].context.project, partial(self._score_others, asks))
        scored.add_done_callback(partial(_end_asks, asks))

    def _score_others(self, asks: Sequence[_GraderAsk]) -> None:
        asks = [ask for ask in asks if ask.answer.set_running_or_notify_cancel()]
        if not asks:
            return
        level, label, _, context, wanted, _ = asks[0]
        self._level.number = level + 1
        if wanted():
            answers = self._scores_of(label, [ask.thread for ask in asks], context, wanted)
        else:
            message = f"grader {label!r} was not asked, because its answer was no longer needed"
            answers = [failed("unreachable", message, True)] * len(asks)
        for ask, answer in zip(asks, answers, strict=True):
            ask.answer.set_result(answer)

    def _scores_of(self, label: str, threads: Sequence[bytes], context: AskContext, wanted: IsWanted) -> list[Answer]:
        """Scores threads with another grader, which is looked up first. If the store is away, this waits as asks of
        servers do.
        """
        assert self.score_other is not None
        while True:
            try:
                return self.score_other(label, threads, context, wanted)
            except RedisError as error:
                if not (self._waits_for_store and is_away(error) and wanted()) or self._is_closed:
                    raise
                sleep(store_calls.AGAIN_S)

    def _begin(self) -> "tuple[ServerAsks, asyncio.AbstractEventLoop]":
        import uvloop

        # Imported here: a process that asks nothing needs no HTTP client.
        from models.asks.server_asks import ServerAsks

        self._running = running = (
            ServerAsks(self._store, self._settings, self._ask_s, self.counts, waits_for_store=self._waits_for_store),
            uvloop.new_event_loop(),
        )
        self._thread = threading.Thread(target=self._serve, args=running, name="asker", daemon=True)
        self._thread.start()
        return running

    def _serve(self, asking: "ServerAsks", loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(asking.serve())
        finally:
            with self._lock:
                self._running = None  # if it failed, the next ask starts another one
            loop.run_until_complete(asking.close())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()


def _end_asks(asks: Sequence[_GraderAsk], scored: Future[None]) -> None:
    """Cancels the asks without an answer, or passes them the error if scoring failed."""
    error = None if scored.cancelled() else scored.exception()
    for ask in asks:
        if ask.answer.done():
            continue
        if error is not None:
            ask.answer.set_exception(error)
        elif ask.answer.cancel():
            ask.answer.set_running_or_notify_cancel()


def done(answer: Answer) -> Future[Answer]:
    """Return a future that has this answer."""
    future: Future[Answer] = Future()
    future.set_result(answer)
    return future


def _cancelled() -> Future[Answer]:
    future: Future[Answer] = Future()
    future.cancel()
    future.set_running_or_notify_cancel()
    return future
