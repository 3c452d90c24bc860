"""Scores that rarely repeat, with a reason. It fails on some completions, and does not apply to others."""

import zlib

from gradebox import NotApplicable, Score, StringThread


async def grade(thread: StringThread) -> Score:
    """From 0 to 1, by the number in the metadata."""
    drawn = zlib.crc32(f"{thread.metadata['number']}".encode())
    if drawn % 50 == 0:
        raise ValueError(f"no answer in row {drawn % 10_000} of '{drawn % 7}'")
    if drawn % 50 == 1:
        raise NotApplicable("there is nothing to compare with")
    return Score(drawn / 2**32, reason=f"the answer is {drawn % 1000} off")
