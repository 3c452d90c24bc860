"""Budgets, and what was spent."""

from typing import Literal

from pydantic import Field

from gradebox.schemas.base import Schema

BudgetPeriod = Literal["day", "month", "total"]


class ProjectBudget(Schema):
    """A project's budget for asks, and how much of it is spent."""

    cost: float | None = Field(None, description="limit in `currency`; null: no limit")
    tokens: int | None = Field(None, description="limit of input and output together; null: no limit")
    currency: str = "USD"
    period: BudgetPeriod = Field("total", description="period, in UTC, after which spending is counted from 0 again")
    spent_cost: float = Field(description="cost in this period, of models with prices in `currency`")
    spent_tokens: int = Field(description="tokens in this period, of all models")
    is_spent: bool = Field(description="whether the budget is used up, so that nothing more is asked")
    not_limited: list[str] = Field(
        default_factory=list, description="models without a price in `currency`, which `cost` does not limit"
    )


class Spending(Schema):
    """The cost of asks."""

    asks: int
    kept: int = Field(description="asks answered with a kept reply, at no cost")
    input_tokens: int
    output_tokens: int
    costs: dict[str, float] = Field(description="cost by currency, of models that have a price")


class ProjectSpending(Schema):
    """The cost of the asks of a project."""

    total: Spending
    by: dict[str, Spending] = Field(
        description="spending of each `model:…`, `endpoint:…` and `grader:…`; only for all time, not for a day or month"
    )
