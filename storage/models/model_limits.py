"""The limits of models and endpoints, shared between all processes that ask them."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from redis import Redis

from gradebox.schemas import AwaitedServer
from storage import redis_keys
from storage.connection import script

GONE_MS = 10_000
"""After this time, the share of a process that no longer reports is divided among the others."""
_WORTH_REPORTING_MS = 3000


class AskLimits(NamedTuple):
    """The limits of one model or endpoint, for all processes together. None means unlimited."""

    at_once: int
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class Demand(NamedTuple):
    """The demand of one process.

    Attributes:
        asks: how many asks it has, waiting or sent.
        sent: how many are sent and not answered.
        waiting: how many more it requests to begin.
        guess: the estimated tokens of a request.
        missed: by how much the estimate was too low, summed over the replies since the last report.
        pause_ms: the pause that the server requested; -1 if it named no time, None if it requested none.
        away_ms: for how long the server has not answered; None if it answers.
    """

    asks: int
    sent: int
    waiting: int
    guess: int = 1
    missed: int = 0
    pause_ms: int | None = None
    away_ms: int | None = None


class Share(NamedTuple):
    """The share of one process.

    Attributes:
        at_once: how many asks it may have sent.
        begun: how many more it may begin.
        paused_ms: for how long no process may send.
        later_ms: the time until more may begin.
    """

    at_once: int
    begun: int
    paused_ms: int
    later_ms: int


class _Account(msgspec.Struct):
    account: int = 1


_account = msgspec.json.Decoder(_Account)


class ModelLimits:
    """Shares limits between processes."""

    def __init__(self, redis: Redis) -> None:
        self.share = script(redis, "share_model_limits")
        """The script to call with `arguments`; `Share(*…)` is its result."""
        self._redis = redis

    def awaited(self, project: str, asks: Sequence[str]) -> list[AwaitedServer]:
        """The targets among `asks` that are waited for, as recently reported by the processes that ask them."""
        accounts = self._accounts(project, [asked for asked in asks if not asked.startswith("grader:")])
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.time()
            for asked, account in accounts.items():
                pipe.hmget(redis_keys.limits(project, asked, account), "away", "told", "paused")
            (seconds, micros), *found = pipe.execute()
        now = seconds * 1000 + micros // 1000
        awaited = (
            _awaited(asked, now, *(int(each or 0) for each in told))
            for asked, told in zip(accounts, found, strict=True)
        )
        return [one for one in awaited if one is not None]

    def _accounts(self, project: str, asks: Sequence[str]) -> dict[str, int]:
        """The current accounts of those of these models and endpoints that exist."""
        with self._redis.pipeline(transaction=False) as pipe:
            for asked in asks:
                kind, _, key = asked.partition(":")
                pipe.hget(redis_keys.models(project) if kind == "model" else redis_keys.endpoints(project), key)
            found = zip(asks, pipe.execute(), strict=True)
        return {asked: _account.decode(record).account for asked, record in found if record is not None}


def _awaited(asked: str, now: int, away: int, told: int, paused: int) -> AwaitedServer | None:
    if away and now - told < GONE_MS and now - away >= _WORTH_REPORTING_MS:
        return AwaitedServer(asked=asked, kind="unreachable", seconds=(now - away) // 1000)
    if paused - now >= _WORTH_REPORTING_MS:
        return AwaitedServer(asked=asked, kind="rate_limited", seconds=(paused - now) // 1000)
    return None


def arguments(
    project: str, asked: str, account: int, process: str, limits: AskLimits, demand: Demand, gone_ms: int = GONE_MS
) -> list[str | int]:
    """The arguments of the script. `asked` is, for example, `model:small-judge`, and `account` that of its record."""
    return [
        redis_keys.limits(project, asked, account),
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
