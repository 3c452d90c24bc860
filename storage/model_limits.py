"""The limits of models and endpoints, shared between all processes that ask them."""

from typing import NamedTuple

from redis import Redis

from storage import names
from storage.connection import script

GONE_MS = 10_000
"""After so long, what a process held that tells nothing any more is shared between the others."""


class Limits(NamedTuple):
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
    """

    asks: int
    sent: int
    waiting: int
    guess: int = 1
    missed: int = 0
    pause_ms: int | None = None


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


def arguments(
    project: str, asked: str, process: str, limits: Limits, demand: Demand, gone_ms: int = GONE_MS
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
    ]
