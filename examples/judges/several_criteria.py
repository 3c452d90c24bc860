"""Several criteria with weights: one is required, one counts if its score is above a threshold."""

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
    """The weighted sum; 0.0 if a required criterion is not met."""
    return await judge(thread)
