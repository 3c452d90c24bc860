"""PASS or FAIL by one criterion. The prompt has two decided cases."""

from gradebox import StringThread
from gradebox.judges import BinaryJudge

judge = BinaryJudge(
    criteria="The answer is polite, and says what happens next.",
    model="small-judge",
    examples=[
        {"input": [{"role": "user", "content": "Where is my parcel?"}], "output": "Look yourself.", "passes": False},
        {"input": [{"role": "user", "content": "Where?"}], "output": "Sorry! It arrives on Monday.", "passes": True},
    ],
)


async def grade(thread: StringThread) -> float:
    """1.0, 0.0, or not applicable; the model's reasoning is the reason."""
    return await judge(thread)
