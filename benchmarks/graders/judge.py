"""A judge with a reason, of a model that the project calls `small-judge`."""

from gradebox import Model, Score, StringThread

judge = Model("small-judge")


async def grade(thread: StringThread) -> float:
    """1.0 where the model says yes."""
    verdict = await judge.choose(f"Is this answer polite?\n\n{thread.completion()}", ["yes", "no"])
    return Score(verdict.option == "yes", reason=verdict.reasoning)
