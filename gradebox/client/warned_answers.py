"""Reads answers that have warnings, and issues these: about a grader that passed the checks, a comparison, and an
agreement.
"""

from gradebox.schemas import GraderRecord, on_scores
from gradebox.schemas.agreement import Agreement
from gradebox.schemas.comparison import Comparison
from gradebox.warn import warn


def proved_grader(body: bytes, known: GraderRecord | None = None) -> GraderRecord:
    """Reads the grader, and issues each warning of the checks as a GraderWarning at the line that called gradebox.

    Warnings about annotations are left out, since no score depends on them; so are all if `known` is the same version.
    """
    grader = GraderRecord.model_validate_json(body)
    if known is not None and known.version == grader.version:
        return grader
    for warning in on_scores(grader.warnings):
        warn(f"{grader.key}@{grader.version}: {warning}")
    return grader


def noted_comparison(body: bytes) -> Comparison:
    """Reads the comparison, and issues its note as a GraderWarning if it has one."""
    found = Comparison.model_validate_json(body)
    if found.note is not None:
        warn(f"{found.scored:,} pairs of batches {found.a.batch} and {found.b.batch} have two scores: {found.note}")
    return found


def noted_agreement(body: bytes) -> Agreement:
    """Reads the agreement, and issues a GraderWarning if no row has a score and a label."""
    found = Agreement.model_validate_json(body)
    if found.note is not None:
        warn(f"batch {found.batch}: no row has a score and a label: {found.note}")
    return found
