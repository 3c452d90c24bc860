"""A model's judgement: whether an answer explains its code.

Asks the project's model `small-judge`. Metadata: `task`; what is not `code` is not applicable.
"""

from gradebox import Model, NotApplicable, Score, StringThread

judge = Model("small-judge")


async def grade(thread: StringThread) -> float:
    """1.0 where the model says yes, with its reasoning as the reason."""
    if thread.metadata["task"] != "code":
        raise NotApplicable("the task asks for no code")
    verdict = await judge.choose(
        f"Does this answer say in words what its code does?\n\n{thread.completion()}", options=["yes", "no"]
    )
    return Score(verdict.option == "yes", reason=verdict.reasoning)
