"""Budgets, and what was spent."""

from typing import Literal

from pydantic import Field

from gradebox.number_text import money_text
from gradebox.schemas.base import Schema

BudgetPeriod = Literal["day", "month", "total"]


class ProjectBudget(Schema):
    """A project's budget for asks, and how much of it is spent."""

    usd: float | None = Field(None, description="limit of the cost in US dollars; null: no limit")
    tokens: int | None = Field(None, description="limit of input and output together; null: no limit")
    period: BudgetPeriod = Field("total", description="period, in UTC, after which spending is counted from 0 again")
    spent_usd: float = Field(description="cost in this period, of models with prices")
    spent_tokens: int = Field(description="tokens in this period, of all models")
    is_spent: bool = Field(description="whether the budget is used up, so that nothing more is asked")
    not_limited: list[str] = Field(
        default_factory=list, description="models without prices, which `usd` does not limit"
    )


class Spending(Schema):
    """The cost of asks."""

    asks: int
    kept: int = Field(description="asks answered with a kept reply, at no cost")
    input_tokens: int = Field(description="input tokens of all other asks, as counted by the servers")
    output_tokens: int
    usd: float = Field(description="cost by the models' prices; 0 if they have none")

    @property
    def cells(self) -> tuple[int | str, ...]:
        """The values for a table, in the order of the fields."""
        return self.asks, self.kept, self.input_tokens, self.output_tokens, money_text(self.usd)


class ProjectSpending(Schema):
    """The cost of the asks of a project."""

    total: Spending
    by: dict[str, Spending] = Field(
        description="spending of each `model:…`, `endpoint:…` and `grader:…`; only for all time, not for a day or month"
    )
