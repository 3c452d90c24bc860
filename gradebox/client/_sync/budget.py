# Made from gradebox/client/_async by scripts/unasync. Do not edit it: edit what it is made from.
"""The budget of a project."""

from gradebox.client._sync.transport import Transport
from gradebox.client.calls import server_calls
from gradebox.schemas import BudgetPeriod, ProjectBudget


class Budget:
    """The budget of the client's project for asking models."""

    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._project = project

    def get(self) -> ProjectBudget:
        """The budget, and the amount spent so far in its period. Without a budget, the total amount spent."""
        return self._transport.send(server_calls.get_budget(self._project))

    def set(
        self,
        *,
        usd: float | None = None,
        tokens: int | None = None,
        period: BudgetPeriod | None = None,
    ) -> ProjectBudget:
        """Sets the budget for each day or month (UTC), or in total, and replaces the current one.

        Args:
            usd: the US dollars that may be spent; give `usd`, `tokens` or both.
            tokens: the tokens that may be spent.
            period: `day`, `month` (the default) or `total`.
        """
        fields = {"usd": usd, "tokens": tokens, "period": period}
        return self._transport.send(server_calls.put_budget(self._project, fields))

    def delete(self) -> None:
        """Removes the budget. Spending continues to be counted."""
        self._transport.send(server_calls.delete_budget(self._project))
