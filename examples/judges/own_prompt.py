"""A prompt with placeholders, and words that stand for scores. Metadata: `answer`."""

from gradebox import StringThread
from gradebox.evaluators import lm_judge

judge = lm_judge(
    [
        {"role": "system", "content": "You mark exams."},
        {"role": "user", "content": "The right answer is {target}. The student wrote: {prediction}"},
    ],
    model="small-judge",
    target="answer",
    scores={"right": 1.0, "nearly": 0.5, "wrong": 0.0},
)


async def grade(thread: StringThread) -> float:
    """The score of the word that the model chose, with its explanation."""
    return await judge(thread)
