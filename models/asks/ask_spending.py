"""What asks cost, and the budgets that they have."""

import asyncio
from time import monotonic
from typing import Any

from gradebox.outcome import Spent
from models.asks.ask_context import AskContext
from models.settings import ModelSettings
from models.store_calls import StoreCalls
from storage.models import spending
from storage.models.kept_replies import Keeping
from storage.models.spending import BudgetStanding, CountedAsk, SpendingStore

_MOST_CACHED = 10_000  # batches whose spending is cached
_SPENDING_FRESH_S = 2.0  # lifetime of cached spending, if there is no budget


class OverBudget(Exception):
    """A budget is spent; the message names it."""


class BatchEnded(Exception):
    """The batch has ended, which its chunk has not seen yet: the ask is about to be cancelled."""


class AskSpending:
    """Counts what the asks of one process cost, stores replies with it, and checks budgets.

    Attributes:
        keeps: whether replies may be stored at all.
    """

    def __init__(self, calls: StoreCalls, store: SpendingStore, settings: ModelSettings, away_s: float | None) -> None:
        """Sends `calls`. `away_s` is how long `wait_for` waits at most; None for as long as it takes."""
        self._calls = calls
        self._script = store.count
        self._away_s = away_s
        self._keeping = Keeping(settings.kept_replies_mb << 20, round(settings.kept_replies_days * 86400))
        self._known: dict[tuple[str, str], tuple[float, BudgetStanding]] = {}
        self.keeps = self._keeping.bytes > 0

    async def check(self, asked: CountedAsk, is_unpriced: bool, context: AskContext) -> bool:
        """Return whether there is a budget. Raises OverBudget if it is spent, or is that of a batch and does not limit
        this ask, because it is of a model without a price; and BatchEnded if the batch has ended.

        The spending is that of all processes. If there is a budget, it is read for each ask: other processes spend too.
        """
        at, known = self._known.get((asked.project, asked.batch), (0.0, None))
        if known is None or known.is_ended or known.budget or context.budget or monotonic() - at > _SPENDING_FRESH_S:
            known = await self.look(asked)  # also of a batch that ended: it may be retried
        if known.is_ended:
            raise BatchEnded
        if is_unpriced and context.budget is not None and context.budget.usd is not None:
            raise OverBudget(  # a batch with such a model is refused, but prices change
                f"the batch's budget in USD does not limit {asked.asked}, which no longer has a price: set it, 0 if it "
                "costs nothing, and send the rest as a new batch"
            )
        if context.budget is not None and (limit := known.batch.used_up(context.budget)):
            raise OverBudget(f"the batch's budget of {limit} is used up: send the rest with a larger one")
        if known.budget is not None and (limit := known.project.used_up(known.budget)):
            message = f"the project's budget of {limit} is used up: raise it, and send the rest as a new batch"
            raise OverBudget(message)
        return context.budget is not None or known.budget is not None

    async def look(self, asked: CountedAsk, digest: bytes = b"") -> BudgetStanding:
        """Fetch the reply stored under a digest, and the spending."""
        arguments = spending.arguments(asked, self._keeping, find=digest)
        call = self._calls.call(self._script, arguments, urgent=not digest, once=bool(digest))
        return self._learn(asked, await call)

    def count(self, asked: CountedAsk, spent: Spent, digest: bytes = b"", reply: bytes = b"") -> asyncio.Future[Any]:
        """Count spending, and store a reply under its digest. This completes even if the caller no longer waits,
        once Redis is back.
        """
        arguments = spending.arguments(asked, self._keeping, spent, keep=digest, reply=reply)
        call = self._calls.call(self._script, arguments, lasting=True, once=True)
        call.add_done_callback(
            lambda done: None if done.cancelled() or done.exception() else self._learn(asked, done.result())
        )
        return call

    async def wait_for(self, counted: asyncio.Future[Any]) -> None:
        """Wait until a cost is counted. If a person waits too, this ends sooner, and the cost is counted later."""
        await asyncio.wait([counted], timeout=self._away_s)
        if counted.done():
            counted.result()

    def _learn(self, asked: CountedAsk, found: list[Any]) -> BudgetStanding:
        standing = spending.standing(found)
        if len(self._known) > _MOST_CACHED:
            self._known.clear()
        self._known[asked.project, asked.batch] = monotonic(), standing
        return standing
