"""The budget of a project."""

from gradebox.client._async.transport import AsyncTransport
from gradebox.client.calls import server_calls
from gradebox.schemas import BudgetPeriod, ProjectBudget


class AsyncBudget:
    """The budget of the client's project for asking models."""

    def __init__(self, transport: AsyncTransport, project: str) -> None:
        self._transport = transport
        self._project = project

    async def get(self) -> ProjectBudget:
        """The budget, and the amount spent so far in its period. Without a budget, the total amount spent."""
        return await self._transport.send(server_calls.get_budget(self._project))

    async def set(
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
        return await self._transport.send(server_calls.put_budget(self._project, fields))

    async def delete(self) -> None:
        """Removes the budget. Spending continues to be counted."""
        await self._transport.send(server_calls.delete_budget(self._project))
