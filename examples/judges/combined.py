"""One score from the project's grader `exact-match` and a judge that is defined here."""

from gradebox import StringThread
from gradebox.judges import Combine, DirectJudge

combined = Combine(
    parts={
        "right": {"grader": "exact-match", "weight": 3, "required": True},
        "polite": {"judge": DirectJudge("Is it polite?", model="small-judge"), "weight": 1},
    },
)


async def grade(thread: StringThread) -> float:
    """The weighted mean; 0.0 if the answer is not right."""
    return await combined(thread)
