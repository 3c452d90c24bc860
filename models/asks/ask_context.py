"""What the asks of one grading call have in common: the grader that asks, its batch, and what holds for them."""

from collections.abc import Mapping
from typing import NamedTuple

from models.asks.validation_timeouts import ValidationTimeouts
from storage.models.spending import Budget


class AskContext(NamedTuple):
    """The grader that asks, and what holds for its asks.

    Attributes:
        project: the project of the grader.
        grader: its key.
        label: key and version, `polite@3`.
        batch: the id of the batch; "" for synchronous scoring and for test runs.
        number: the number of the batch's grader for which it asks: that of itself, or of a grader that asks it.
        asks: the permitted asks: `model:small-judge` maps to "", `grader:has-answer` to the version to use.
        keep: whether stored replies are used, and replies stored.
        stand_in: whether the smallest fitting reply replaces that of a server, which is not asked.
        budget: of the batch; None for no limit.
        timeouts: of a validation; None if servers are waited for as long as an ask may take.
        since: when the call that scores began, as `time.monotonic()`: servers are asked with settings that were read
            then or later.
        has_asked: whether earlier asks of the completion were answered. Asks of such completions get the next places:
            if a budget is used up or the batch is cancelled, as many as possible of the paid replies become scores.
    """

    project: str
    grader: str
    label: str
    batch: str = ""
    asks: Mapping[str, str] = {}
    keep: bool = True
    stand_in: bool = False
    budget: Budget | None = None
    timeouts: ValidationTimeouts | None = None
    since: float = 0.0
    number: int = 0
    has_asked: bool = False
