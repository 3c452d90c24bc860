"""A grader that a reward server scores."""

from gradebox.asks.endpoint import Endpoint
from gradebox.score import Score
from gradebox.thread import StringThread


class ExternalEndpoint:
    """Asks a reward server of the project: `await external(thread)`. Make it at module level."""

    def __init__(self, endpoint: str) -> None:
        """`endpoint` is the endpoint's key in the project. Raises ValueError for what is no key."""
        self._endpoint = Endpoint(endpoint)

    async def __call__(self, thread: StringThread) -> Score:
        """What the server answers: its reward, with `metadata.reason` as the reason and `metadata` as details.

        Raises:
            ModelError: it does not answer, or not with a reward.
        """
        return await self._endpoint.score(thread)

    def __repr__(self) -> str:
        return f"ExternalEndpoint({self._endpoint.key!r})"
