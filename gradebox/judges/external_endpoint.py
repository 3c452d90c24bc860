"""A grader whose scores come from a reward server."""

from gradebox.asks.endpoint import Endpoint
from gradebox.score import Score
from gradebox.thread import StringThread


class ExternalEndpoint:
    """Asks a reward server of the project: `await external(thread)`. Create it at module level."""

    def __init__(self, endpoint: str) -> None:
        """`endpoint` is the endpoint's key in the project. Raises ValueError if it is invalid."""
        self._endpoint = Endpoint(endpoint)

    async def __call__(self, thread: StringThread) -> Score:
        """Score a thread: the server's reward, with `metadata.reason` as the reason and `metadata` as details.

        Raises:
            ModelError: the server does not answer, or not with a reward.
        """
        return await self._endpoint.score(thread)

    def __repr__(self) -> str:
        return f"ExternalEndpoint({self._endpoint.key!r})"
