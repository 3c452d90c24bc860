"""The reward of your server: the project's endpoint `my-reward`."""

from gradebox import StringThread
from gradebox.judges import ExternalEndpoint

external = ExternalEndpoint("my-reward")


async def grade(thread: StringThread) -> float:
    """The server's reward, with its reason."""
    return await external(thread)
