"""What a project may spend."""

from gradebox.client import calls
from gradebox.client._async.transport import AsyncTransport
from gradebox.schemas import BudgetPeriod, ProjectBudget


class AsyncBudget:
    """What the client's project may spend on asking models."""

    def __init__(self, transport: AsyncTransport, project: str) -> None:
        self._transport = transport
        self._project = project

    async def get(self) -> ProjectBudget:
        """The budget, and what was spent in its period so far. Without one, what was spent in all."""
        return await self._transport.send(calls.get_budget(self._project))

    async def set(
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
        return await self._transport.send(calls.put_budget(self._project, fields))

    async def delete(self) -> None:
        """Takes the budget away. What was spent is counted all the same."""
        await self._transport.send(calls.delete_budget(self._project))
