"""The combined outcomes of a batch of several graders with weights. They are computed from those of the graders when
they are read, and are never stored, so that they are right after a retry.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from gradebox.combination import COMBINED, combined
from gradebox.outcome import OutcomeDecoder, PlainOutcome
from storage.batch_plan import Plan

Combining: TypeAlias = Callable[[Sequence[bytes]], bytes]
"""Returns the line of a combined outcome, from the lines of the graders for one thread, in the batch's order."""

_decode_lines = OutcomeDecoder(PlainOutcome).decode_lines
_encode = msgspec.json.Encoder().encode


def combining_of(plan: Plan) -> Combining | None:
    """What combines the outcomes of a batch; None if it has no combined ones."""
    if not plan.weighted:
        return None
    weights = [scorer.weight for scorer in plan.scorers]
    return lambda lines: _encode(combined(COMBINED, weights, _decode_lines(b"".join(lines)))) + b"\n"
