"""Sends one ask of a server, with retries."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import count
from time import monotonic

from models.asks.rate_limits import Gate
from models.asks.validation_timeouts import ValidationTimeouts
from models.errors import AskFailed, TokenUsage
from models.replies.answer_json import Answer

_LONGEST_PAUSE_S = 15.0


async def send_with_retries(
    send: Callable[[], Awaitable[Answer]],
    look: Callable[[], Awaitable[None]],
    gate: Gate,
    timeouts: ValidationTimeouts | None,
    pay: Callable[[TokenUsage], Awaitable[None]],
) -> Answer:
    """Send an ask that has a place, with retries. The last may begin when the time of an ask ends, and each has the
    whole `timeout_s` of its server. `pay` is called with the tokens of a failed try before the next. Raises AskFailed,
    and what `look` and `pay` raise.
    """
    began = monotonic()
    end = began + (gate.ask_s if timeouts is None else timeouts.reply_s)
    last_try = end if timeouts is None else began + timeouts.tries_s
    for tries in count(1):
        await gate.pause_over(end)
        if tries > 1:
            await look()
            gate.note_request()
        try:
            if timeouts is None:
                return await send()
            async with asyncio.timeout(max(end - monotonic(), 1.0)):
                return await send()
        except TimeoutError:  # the server may only be slow, so it is not recorded as away
            if timeouts is None:
                raise
            raise timeouts.too_slow() from None
        except AskFailed as error:
            _note(error, gate)
            pause_s = _pause(error, tries)
            is_late = monotonic() + pause_s > last_try or gate.paused_until > end
            if not error.fault.retryable or gate.is_away() or is_late:
                raise
            if any(error.usage):
                await pay(error.usage)
        await asyncio.sleep(pause_s)
    raise AssertionError


def _note(error: AskFailed, gate: Gate) -> None:
    """Update the gate from a failed answer."""
    fault = error.fault
    if fault.kind == "rate_limited" or fault.retry_after_s is not None:
        gate.note_pause(fault.retry_after_s)
    if fault.kind == "unreachable":
        gate.note_unreachable()
    else:
        gate.note_answer()


def _pause(error: AskFailed, tries: int) -> float:
    """Seconds until the next try. They are random, so that the asks do not all retry at once when a pause of the gate
    ends.
    """
    longest = 1.0 if error.fault.kind == "rate_limited" else min(2.0 ** (tries - 1), _LONGEST_PAUSE_S)
    return random.uniform(longest / 2, longest)  # noqa: S311 - no secret
