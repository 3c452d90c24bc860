"""Checks of the answer and of an agent's calls, each with a reason. Asks no model."""

from gradebox import StringThread
from gradebox.checks import max_words, not_called, not_contains, run_all

CHECKS = [max_words(50), not_contains("as an AI", ignore_case=True), not_called("delete_account")]


async def grade(thread: StringThread) -> float:
    """1.0 if all checks pass, else 0.0; `details` has each check."""
    return run_all(CHECKS, thread)
