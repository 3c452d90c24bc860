"""The limits of models and endpoints, shared between all processes that ask them."""

from collections.abc import Sequence
from typing import NamedTuple

from redis import Redis

from gradebox.schemas import AwaitedServer
from storage import names
from storage.connection import script

GONE_MS = 10_000
"""After so long, what a process held that tells nothing any more is shared between the others."""
_WORTH_TELLING_MS = 3000


class AskLimits(NamedTuple):
    """Of one model or endpoint, whoever asks it; None: any."""

    at_once: int
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class Demand(NamedTuple):
    """What one process has to ask.

    Attributes:
        asks: how many asks it has, waiting or sent.
        sent: how many are sent and not answered.
        waiting: for how many more to be begun it asks.
        guess: what a request is thought to take in tokens.
        missed: by how much that was too little, of all that were answered since it was told last.
        pause_ms: what the server asked to wait; -1 where it named no time, None where it did not ask.
        away_ms: for how long the server has answered nothing; None where it answers.
    """

    asks: int
    sent: int
    waiting: int
    guess: int = 1
    missed: int = 0
    pause_ms: int | None = None
    away_ms: int | None = None


class Share(NamedTuple):
    """What one process may do.

    Attributes:
        at_once: how many asks it may have sent.
        begun: how many more it may begin.
        paused_ms: for how long nobody may.
        later_ms: when more may be begun.
    """

    at_once: int
    begun: int
    paused_ms: int
    later_ms: int


class ModelLimits:
    """Shares limits."""

    def __init__(self, redis: Redis) -> None:
        self.share = script(redis, "share_limits")
        """To be called with `arguments`; `Share(*…)` is what it returns."""
        self._redis = redis

    def awaited(self, project: str, asks: Sequence[str]) -> list[AwaitedServer]:
        """Which of these are waited for, as the processes that ask them have told of late."""
        asks = [asked for asked in asks if not asked.startswith("grader:")]
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.time()
            for asked in asks:
                pipe.hmget(names.limits(project, asked), "away", "told", "paused")
            (seconds, micros), *found = pipe.execute()
        now = seconds * 1000 + micros // 1000
        awaited = (
            _awaited(asked, now, *(int(each or 0) for each in told)) for asked, told in zip(asks, found, strict=True)
        )
        return [one for one in awaited if one is not None]


def _awaited(asked: str, now: int, away: int, told: int, paused: int) -> AwaitedServer | None:
    if away and now - told < GONE_MS and now - away >= _WORTH_TELLING_MS:
        return AwaitedServer(asked=asked, kind="unreachable", seconds=(now - away) // 1000)
    if paused - now >= _WORTH_TELLING_MS:
        return AwaitedServer(asked=asked, kind="rate_limited", seconds=(paused - now) // 1000)
    return None


def arguments(
    project: str, asked: str, process: str, limits: AskLimits, demand: Demand, gone_ms: int = GONE_MS
) -> list[str | int]:
    """What the script is called with. `asked` is `model:small-judge`."""
    return [
        names.limits(project, asked),
        process,
        demand.asks,
        demand.sent,
        demand.waiting,
        limits.at_once,
        limits.requests_per_minute or 0,
        limits.tokens_per_minute or 0,
        max(demand.guess, 1),
        demand.missed,
        "" if demand.pause_ms is None else demand.pause_ms,
        gone_ms,
        "" if demand.away_ms is None else demand.away_ms,
    ]
