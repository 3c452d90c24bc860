"""Answers for clients that wait for so many seconds and no longer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from anyio import fail_after

from api.http.problems import RETRY, ProblemError


@asynccontextmanager
async def in_time(seconds: float, last_s: float) -> AsyncIterator[float]:
    """Gives the moment of the monotonic clock by which a grader is to have ended, `last_s` before the block is to.

    Raises ProblemError where the block takes longer than so many seconds: the places of all others were taken.
    """
    try:
        with fail_after(seconds):
            yield monotonic() + seconds - last_s
    except TimeoutError as error:
        detail = f"there was no answer within {seconds:g} s, and the client waits for no more: try again"
        raise ProblemError(503, "busy", detail, RETRY) from error
