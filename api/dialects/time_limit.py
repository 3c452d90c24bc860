"""Time limits for clients that wait a fixed number of seconds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from anyio import fail_after

from api.http.problems import RETRY, ProblemError


@asynccontextmanager
async def in_time(seconds: float, last_s: float) -> AsyncIterator[float]:
    """Yields the moment of the monotonic clock by which a grader has to end, `last_s` before the block's deadline.

    Raises ProblemError if the block takes longer than `seconds`, because all places were taken by others.
    """
    try:
        with fail_after(seconds):
            yield monotonic() + seconds - last_s
    except TimeoutError as error:
        detail = f"there was no answer within {seconds:g} s, and the client waits for no more: try again"
        raise ProblemError(503, "busy", detail, RETRY) from error
