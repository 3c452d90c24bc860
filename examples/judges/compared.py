"""A function of the answer and the target, with an explanation. Asks no model. Metadata: `answer`."""

from gradebox import StringThread
from gradebox.evaluators import deterministic


def closeness(prediction: str, target: str) -> float:
    """1 if the numbers are equal; less if they are farther apart."""
    wanted = float(target)
    return max(0.0, 1 - abs(float(prediction) - wanted) / max(1.0, abs(wanted)))


evaluator = deterministic(closeness, purpose="numeric closeness", target="answer")


async def grade(thread: StringThread) -> float:
    """The closeness, from 0.0 to 1.0."""
    return evaluator(thread)
