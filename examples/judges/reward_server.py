"""The reward of a server of yours: the endpoint `my-reward` of the project."""

from gradebox import StringThread
from gradebox.judges import ExternalEndpoint

external = ExternalEndpoint("my-reward")


async def grade(thread: StringThread) -> float:
    """What the server says, with its reason."""
    return await external(thread)
