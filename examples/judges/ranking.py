"""Compares each pair of answers to one prompt. The score is the win rate."""

from gradebox import Score, StringThread
from gradebox.judges import PairwiseJudge

judge = PairwiseJudge(
    "The better answer is polite, and says what happens next.",
    model="small-judge",
    check_positional_bias=True,
    on_bias="tie",
)


async def grade(threads: list[StringThread]) -> list[Score | Exception]:
    """A win rate for each answer; `details` has its contests and its rank."""
    return await judge(threads)
