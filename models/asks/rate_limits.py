"""Limits on a model's concurrent asks and on its asks per minute, shared with all other processes through Redis.

Within a process, an ask that ends passes its place to the next. While there are asks, Redis is queried for this
process's share twice a second.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import monotonic

from redis.exceptions import RedisError

from models.errors import AskFailed
from models.store_calls import StoreCalls
from storage.models.model_limits import AskLimits, Demand, ModelLimits, Share, arguments

_TICK_S = 0.5
_SOON_S = 0.02  # asks that arrive shortly after each other request a larger share together
_LOG_AFTER_S = 3.0
_GUESS = 512  # estimated tokens of a request, before the first reply
_GUESSES = 20  # the estimate is a moving average over about so many replies

_log = logging.getLogger(__name__)


class Gate:
    """The limits of one model or endpoint, for one event loop. They end with its account.

    Attributes:
        places: the number of asks that this process may send at once.
        paused_until: the time until which no ask may be sent.
    """

    def __init__(
        self,
        project: str,
        asked: str,
        account: int,
        process: str,
        limits: AskLimits,
        calls: StoreCalls,
        shared: ModelLimits,
        ask_s: float,
    ) -> None:
        self.limits = limits
        self.ask_s = ask_s
        self._project = project
        self._asked = asked
        self._account = account
        self._process = process
        self._calls = calls
        self._shared = shared
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sent = 0
        self._most = 0  # maximum number of asks at one time since the last request for a share
        self.places = 0
        self._may_begin = 0
        self._reported = 0  # number of asks in the last request for a share
        self.paused_until = 0.0
        self._later_at = 0.0
        self._pause_ms: int | None = None
        self._guess = _GUESS
        self._missed = 0
        self._failing_since: float | None = None
        self._is_logged = False  # whether the outage is logged
        self._trial: asyncio.Future[None] | None = None  # done when the trial ask of a server that is away has ended
        self._sharing: asyncio.Task[None] | None = None
        self._wants_more = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether there are no asks, and no share is held."""
        return self._sharing is None

    def is_away(self) -> bool:
        """Return whether no ask has been answered for as long as an ask may take."""
        return self._failing_since is not None and monotonic() - self._failing_since > self.ask_s

    @asynccontextmanager
    async def place(self, next_one: bool = False) -> AsyncIterator[None]:
        """Hold a place among the asks that may be sent at once; waits without a timeout. `next_one` gets the next.

        Raises:
            AskFailed: the server requires a longer pause than an ask may take, or has been away for as long.
            RedisError: Redis does not answer.
        """
        await self._enter(next_one)
        is_trial = False
        try:
            is_trial = await self._is_trial()
            yield
        finally:
            if is_trial:
                self._end_trial()
                self._trial = None
            self._sent -= 1
            self._hand_on()

    async def pause_over(self, until: float) -> None:
        """Wait until the server's pause ends. Raises AskFailed if it ends after `until`."""
        while (left := self.paused_until - monotonic()) > 0:
            if monotonic() + left > until:
                raise _paused(self.ask_s)
            await asyncio.sleep(left)

    def note_request(self) -> None:
        """Record a request that is sent in addition to the ask's first one."""
        if self._is_by_minute:
            self._may_begin -= 1

    def note_reply(self, tokens: int) -> None:
        """Record a reply: `tokens` is the total of the ask."""
        self.note_answer()
        self._missed += tokens - self._guess
        self._guess += round((tokens - self._guess) / _GUESSES)

    def note_answer(self) -> None:
        """Record that the server answered."""
        if self._is_logged:
            _log.info("%s of project %s answers again", self._asked, self._project)
            self._is_logged = False
        self._failing_since = None
        self._end_trial()

    def note_unreachable(self) -> None:
        """Record that the server did not answer."""
        if self._failing_since is None:
            self._failing_since = monotonic()
        elif not self._is_logged and monotonic() - self._failing_since > _LOG_AFTER_S:
            _log.warning("%s of project %s does not answer, its asks wait", self._asked, self._project)
            self._is_logged = True
        self._end_trial()

    def note_pause(self, seconds: float | None) -> None:
        """Record that the server requires a pause, of `seconds` if given. No process sends an ask during it."""
        asked = -1 if seconds is None else round(seconds * 1000)
        self._pause_ms = asked if self._pause_ms is None else max(self._pause_ms, asked)
        self.paused_until = max(self.paused_until, monotonic() + (0.5 if seconds is None else seconds))
        self._wants_more.set()

    async def close(self) -> None:
        """Give back the share."""
        if self._sharing is None:
            return
        self._sharing.cancel()
        with suppress(RedisError, asyncio.CancelledError):
            await self._sharing
        self._sharing = None
        with suppress(RedisError):  # otherwise the share expires once this process has stopped renewing it
            nothing = Demand(0, 0, 0, self._guess, self._missed)
            await self._ask_for(nothing)

    async def _enter(self, next_one: bool) -> None:
        self._most = max(self._most, self._sent + len(self._waiting) + 1)
        if self._sharing is None:
            self._sharing = asyncio.create_task(self._share_until_idle())
        if not self._waiting and self._is_free():
            self._take()
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.insert(0 if next_one else len(self._waiting), place)
        self._wants_more.set()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and not place.exception():
                self._sent -= 1
                self._may_begin += 1 if self._is_by_minute else 0
                self._hand_on()
            else:
                with suppress(ValueError):
                    self._waiting.remove(place)
            raise

    @property
    def _is_by_minute(self) -> bool:
        return bool(self.limits.requests_per_minute or self.limits.tokens_per_minute)

    def _is_free(self) -> bool:
        return (
            self._sent < self.places
            and (not self._is_by_minute or self._may_begin > 0)
            and monotonic() >= self.paused_until
        )

    def _take(self) -> None:
        self._sent += 1
        self.note_request()

    def _hand_on(self) -> None:
        while self._waiting and self._is_free():
            place = self._waiting.popleft()
            if not place.done():
                self._take()
                place.set_result(None)
        if self._is_worth_asking():
            self._wants_more.set()

    async def _is_trial(self) -> bool:
        """Return whether this ask is the one that tries a server that is away. All others wait for the result of that
        ask.

        Raises:
            AskFailed: the server did not answer it.
        """
        if not self.is_away():
            return False
        if self._trial is None:
            self._trial = asyncio.get_running_loop().create_future()
            return True
        await asyncio.shield(self._trial)
        if self.is_away():
            message = f"the server has not answered for {self.ask_s:g} s and more: score it again once it is back"
            raise AskFailed("unreachable", message, True)
        return False

    def _end_trial(self) -> None:
        if self._trial is not None and not self._trial.done():
            self._trial.set_result(None)

    async def _share_until_idle(self) -> None:
        """Keeps this process's share up to date while there are asks, and then gives it back."""
        while True:
            self._wants_more.clear()
            demand = self._demand()
            try:
                share = await self._ask_for(demand)
            except Exception as error:
                self._fail_waiting(error)
                self.places = 0
                self._sharing = None
                if not isinstance(error, RedisError):
                    raise
                return
            self._apply(share)
            if not demand.asks and not self._most:
                self._sharing = None
                return
            await self._until_next()

    async def _ask_for(self, demand: Demand) -> Share:
        reported = arguments(self._project, self._asked, self._account, self._process, self.limits, demand)
        return Share(*await self._calls.call(self._shared.share, reported))

    async def _until_next(self) -> None:
        """Waits until the next request for a share: soon, if more is needed and may be available."""
        await asyncio.sleep(_SOON_S)
        end = monotonic() + _TICK_S
        while (left := end - monotonic()) > 0 and not self._is_worth_asking():
            self._wants_more.clear()
            closed = max(self._later_at, self.paused_until) - monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wants_more.wait(), min(left, closed) if closed > 0 else left)

    def _is_worth_asking(self) -> bool:
        """Whether a new share may be larger than the current one."""
        if self._pause_ms is not None:
            return True
        if not self._waiting or monotonic() < max(self._later_at, self.paused_until):
            return False
        return self._sent < self.places or self.places >= self._reported

    def _demand(self) -> Demand:
        asks, self._most = max(self._most, self._sent + len(self._waiting)), 0
        pause_ms, self._pause_ms = self._pause_ms, None
        missed, self._missed = self._missed, 0
        waiting = max(len(self._waiting) - self._may_begin, 0)
        self._reported = asks
        away_ms = None if self._failing_since is None else round((monotonic() - self._failing_since) * 1000)
        return Demand(asks, self._sent, waiting, self._guess, missed, pause_ms, away_ms)

    def _apply(self, share: Share) -> None:
        now = monotonic()
        self.places = share.at_once
        self._may_begin += share.begun if self._is_by_minute else 0
        self.paused_until = now + share.paused_ms / 1000
        self._later_at = now + share.later_ms / 1000
        if share.paused_ms / 1000 > self.ask_s:
            self._fail_waiting(_paused(self.ask_s))
        self._hand_on()

    def _fail_waiting(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, deque()
        for place in waiting:
            if not place.done():
                place.set_exception(error)


class Gates:
    """The gates of one process."""

    def __init__(self, calls: StoreCalls, shared: ModelLimits, process: str, ask_s: float) -> None:
        self._ask_s = ask_s
        self._calls = calls
        self._shared = shared
        self._process = process
        self._gates: dict[tuple[str, str, int], Gate] = {}
        self._newest: dict[tuple[str, str], Gate] = {}

    def get(self, project: str, asked: str, account: int, limits: AskLimits) -> Gate:
        """Return the gate of a model or endpoint, and set its limits. With another account, it is another gate, because
        another server is asked, or the same one with other rights.
        """
        gate = self._gates.get((project, asked, account))
        if gate is None:
            gate = Gate(project, asked, account, self._process, limits, self._calls, self._shared, self._ask_s)
            self._gates[project, asked, account] = gate
        self._newest[project, asked] = gate
        gate.limits = limits
        return gate

    def places(self, project: str, asked: str) -> int:
        """Return how many asks of this model or endpoint may be sent at once. Thread-safe."""
        gate = self._newest.get((project, asked))
        return 0 if gate is None else gate.places

    async def close(self) -> None:
        """Give back all shares."""
        await asyncio.gather(*(gate.close() for gate in self._gates.values()))

    def forget_idle(self) -> None:
        """Drop unused gates."""
        self._gates = {name: gate for name, gate in self._gates.items() if not gate.is_idle}
        self._newest = {name: gate for name, gate in self._newest.items() if not gate.is_idle}


def _paused(ask_s: float) -> AskFailed:
    message = f"the server wants fewer requests, for longer than the {ask_s:g} s that an ask may take: try again later"
    return AskFailed("rate_limited", message, True)
