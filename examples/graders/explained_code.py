"""Whether an answer explains its code, as judged by a model.

Asks the project's model `small-judge`. Metadata: `task`; tasks other than `code` are not applicable.
"""

from gradebox import Model, NotApplicable, Score, StringThread

judge = Model("small-judge")


async def grade(thread: StringThread) -> float:
    """1.0 if the model answers yes, else 0.0, with its reasoning as the reason."""
    if thread.metadata["task"] != "code":
        raise NotApplicable("the task asks for no code")
    verdict = await judge.choose(
        f"Does this answer say in words what its code does?\n\n{thread.completion()}", options=["yes", "no"]
    )
    return Score(verdict.option == "yes", reason=verdict.reasoning)
