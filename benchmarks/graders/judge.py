"""A judge that gives a reason. It asks the project's model `small-judge`."""

from gradebox import Model, Score, StringThread

judge = Model("small-judge")


async def grade(thread: StringThread) -> float:
    """1.0 if the model answers yes, else 0.0."""
    verdict = await judge.choose(f"Is this answer polite?\n\n{thread.completion()}", ["yes", "no"])
    return Score(verdict.option == "yes", reason=verdict.reasoning)
