"""A function of the answer and of what it should be, which explains its score. No model. Metadata: `answer`."""

from gradebox import StringThread
from gradebox.evaluators import deterministic


def closeness(prediction: str, target: str) -> float:
    """1 where the numbers are equal; less, the farther apart they are."""
    wanted = float(target)
    return max(0.0, 1 - abs(float(prediction) - wanted) / max(1.0, abs(wanted)))


evaluator = deterministic(closeness, purpose="numeric closeness", target="answer")


async def grade(thread: StringThread) -> float:
    """From 0.0 to 1.0."""
    return evaluator(thread)
