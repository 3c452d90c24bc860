"""The cost of asks, and the budgets that limit them."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from redis import Redis

from gradebox import schemas
from gradebox.number_text import money_text
from gradebox.outcome import Spent
from gradebox.schemas import BudgetPeriod, ProjectBudget, ProjectSpending
from storage import redis_keys
from storage.access.audit import Audit
from storage.connection import clock, script, text
from storage.models.kept_replies import Keeping, packed, unpacked

NANO = 1_000_000_000
"""Money is counted in whole billionths, because sums of floats drift."""
_COUNTS = ("asks", "kept", "input_tokens", "output_tokens")
_USD = "cost:USD"  # the name of the count of money


class Budget(msgspec.Struct, frozen=True):
    """A limit on the cost of asks. The budget of a batch has no period.

    Attributes:
        usd: None for no limit.
        tokens: input and output together; None for no limit.
        period: for the budget of a project: the counts restart each day or month, UTC.
    """

    usd: float | None = None
    tokens: int | None = None
    period: BudgetPeriod = "total"


class Totals(NamedTuple):
    """The amounts spent so far."""

    tokens: int
    usd: float

    def used_up(self, budget: Budget) -> str | None:
        """The limit of the budget that is spent, such as `5 USD a month`, so that no more asks are allowed; or None."""
        each = "" if budget.period == "total" else f" a {budget.period}"
        if budget.usd is not None and self.usd >= budget.usd:
            return f"{money_text(budget.usd)} USD{each}"
        if budget.tokens is not None and self.tokens >= budget.tokens:
            return f"{budget.tokens:,} tokens{each}"
        return None


class BudgetStanding(NamedTuple):
    """The kept reply that was found, and the amounts spent.

    Attributes:
        reply: the kept reply, or None.
        is_ended: whether the batch has ended, so that no further ask is needed.
        batch: the amounts that the batch has spent.
        budget: the budget of the project, or None.
        project: the amounts that the project has spent in the period of its budget.
    """

    reply: bytes | None
    is_ended: bool
    batch: Totals
    budget: Budget | None
    project: Totals


class CountedAsk(NamedTuple):
    """The keys that an ask is counted under. `asked` is for example `model:small-judge`; `grader` is "" for the test of
    a model; `number` is that of the grader of the batch for which it is made, perhaps by a grader that it asks.
    """

    project: str
    asked: str
    grader: str
    batch: str
    number: int = 0


class SpendingStore:
    """The counts and budgets of all projects."""

    def __init__(self, redis: Redis, audit: Audit) -> None:
        self._redis = redis
        self._audit = audit
        self.count = script(redis, "count_ask")
        """Takes the result of `arguments`; `standing` parses its reply."""

    def set_budget(self, project: str, budget: Budget | None) -> None:
        """Sets the budget of a project; None removes it."""
        if budget is None and not self._redis.hexists(redis_keys.BUDGETS, project):
            return
        with self._redis.pipeline() as pipe:
            if budget is None:
                pipe.hdel(redis_keys.BUDGETS, project)
                self._audit.write(pipe, project, "budget.delete", project)
            else:
                told = msgspec.json.encode(budget)
                pipe.hset(redis_keys.BUDGETS, project, told)
                self._audit.write(pipe, project, "budget.update", project, told.decode())
            pipe.execute()

    def budget(self, project: str) -> Budget | None:
        """The budget of a project; None for no limit."""
        found = self._redis.hget(redis_keys.BUDGETS, project)
        return None if found is None else msgspec.json.decode(found, type=Budget)

    def standing_of(self, project: str) -> ProjectBudget:
        """A project's budget and the amounts spent in its period; without a budget, the total amounts."""
        budget = self.budget(project) or Budget()
        spent = self._totals(project, budget)
        return ProjectBudget(
            usd=budget.usd,
            tokens=budget.tokens,
            period=budget.period,
            spent_usd=spent.usd,
            spent_tokens=spent.tokens,
            is_spent=spent.used_up(budget) is not None,
        )

    def used_up(self, project: str) -> str | None:
        """The limit of the project's budget that is spent, such as `5 USD a month`; or None."""
        budget = self.budget(project)
        return None if budget is None else self._totals(project, budget).used_up(budget)

    def count_trial(self, project: str, model: str, spent: Spent) -> None:
        """Counts the cost of an ask that tests a model, which no grader makes."""
        self.count(args=arguments(CountedAsk(project, f"model:{model}", "", ""), Keeping(0, 0), spent))

    def _totals(self, project: str, budget: Budget) -> Totals:
        """The amounts spent in the period of a budget."""
        today = clock(self._redis)
        period = {"total": "", "day": f"{today:%Y-%m-%d}", "month": f"{today:%Y-%m}"}[budget.period]
        found = self._redis.hmget(redis_keys.spent(project, period), ["input_tokens", "output_tokens", _USD])
        input_tokens, output_tokens, nano_usd = (int(count or 0) for count in found)
        return Totals(input_tokens + output_tokens, nano_usd / NANO)

    def told(self, project: str, period: str = "") -> ProjectSpending:
        """The spending of a project in total, or in a day (`2026-11-23`) or month (`2026-11`). The total is also broken
        down by each model or endpoint that was asked, and by each grader that asked.
        """
        counts: dict[str, dict[str, int]] = {"": {}}
        for field, value in self._redis.hgetall(redis_keys.spent(project, period)).items():
            kind, _, rest = text(field).partition(":")
            key, _, count = rest.partition(":")
            if kind in ("model", "endpoint", "grader"):
                counts.setdefault(f"{kind}:{key}", {})[count] = int(value)
            else:
                counts[""][text(field)] = int(value)
        total, by = counts.pop(""), {name: _told(counts[name]) for name in sorted(counts)}
        return ProjectSpending(total=_told(total), by=by)


def arguments(
    asked: CountedAsk,
    keeping: Keeping,
    spent: Spent | None = None,
    find: bytes = b"",
    keep: bytes = b"",
    reply: bytes = b"",
) -> list[bytes]:
    """The arguments of the script, which looks up the reply with digest `find`, stores `reply` under the digest `keep`,
    and counts `spent`.
    """
    told = {
        **asked._asdict(),
        "keep_s": keeping.seconds,
        "keep_bytes": keeping.bytes,
        "counts": _counts(spent) if spent else [],
    }
    return [msgspec.msgpack.encode(told), find, keep, packed(reply) if keep else b""]


def of_grader(counts: Mapping[bytes, bytes], number: int) -> Spent | None:
    """What the asks for a grader of a batch cost so far, from the batch's counts; None if it asked nothing."""
    prefix = b"%d:" % number
    own = {text(name.removeprefix(prefix)): int(count) for name, count in counts.items() if name.startswith(prefix)}
    if not own:
        return None
    return Spent(**{name: own.get(name, 0) for name in _COUNTS}, usd=own.get(_USD, 0) / NANO)


def standing(found: list[bytes | int]) -> BudgetStanding:
    """Parses the reply of the script."""
    reply, is_ended, batch_input, batch_output, batch_usd, budget, input_tokens, output_tokens, usd = found
    assert isinstance(reply, bytes)
    assert isinstance(budget, bytes)
    return BudgetStanding(
        unpacked(reply) if reply else None,
        bool(is_ended),
        Totals(int(batch_input) + int(batch_output), int(batch_usd) / NANO),
        msgspec.json.decode(budget, type=Budget) if budget else None,
        Totals(int(input_tokens) + int(output_tokens), int(usd) / NANO),
    )


def _counts(spent: Spent) -> list[str]:
    counts = {name: getattr(spent, name) for name in _COUNTS} | {_USD: round(spent.usd * NANO)}
    return [told for name, count in counts.items() if count for told in (name, str(count))]


def _told(counts: dict[str, int]) -> schemas.Spending:
    return schemas.Spending(**{name: counts.get(name, 0) for name in _COUNTS}, usd=counts.get(_USD, 0) / NANO)
