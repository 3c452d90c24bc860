# Made from gradebox/client/_async by scripts/unasync. Do not edit it: edit what it is made from.
"""What a project may spend."""

from gradebox.client import calls
from gradebox.client._sync.transport import Transport
from gradebox.schemas import BudgetPeriod, ProjectBudget


class Budget:
    """What the client's project may spend on asking models."""

    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._project = project

    def get(self) -> ProjectBudget:
        """The budget, and what was spent in its period so far. Without one, what was spent in all."""
        return self._transport.send(calls.get_budget(self._project))

    def set(
        self,
        *,
        cost: float | None = None,
        tokens: int | None = None,
        currency: str | None = None,
        period: BudgetPeriod | None = None,
    ) -> ProjectBudget:
        """Sets what may be spent in each day or month (UTC), or in total: money, tokens or both.

        The currency is USD by default, the period a month. What was set before is replaced.
        """
        fields = {"cost": cost, "tokens": tokens, "currency": currency, "period": period}
        return self._transport.send(calls.put_budget(self._project, fields))

    def delete(self) -> None:
        """Takes the budget away. What was spent is counted all the same."""
        self._transport.send(calls.delete_budget(self._project))
