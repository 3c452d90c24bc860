"""The score of the option that the model chooses; three samples, in both orders of the options."""

from gradebox import StringThread
from gradebox.judges import Criterion, DirectJudge, Option

judge = DirectJudge(
    Criterion(
        "How well does the answer help the customer?",
        [Option("Well", "It solves the problem", 1.0), Option("Partly", "", 0.5), Option("Not", "", 0.0)],
        name="helpful",
    ),
    model="small-judge",
    check_positional_bias=True,
    self_consistency=3,
)


async def grade(thread: StringThread) -> float:
    """The mean of the samples; `details` has the votes, their spread and the positional bias."""
    return await judge(thread)
