"""Several criteria with weights: one is required, one counts from a threshold on."""

from gradebox import StringThread
from gradebox.judges import CriterionItem, MultiCriteria

judge = MultiCriteria(
    [
        CriterionItem("Is it polite?", 0.5, required=True),
        CriterionItem("conciseness", 0.3, target_option="Yes"),
        CriterionItem("Does it say what happens next?", 0.2, score_threshold=0.5),
    ],
    model="small-judge",
)


async def grade(thread: StringThread) -> float:
    """The weighted sum; 0.0 where what is required is not met."""
    return await judge(thread)
