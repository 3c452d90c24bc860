"""Reads the answer about a grader that the five checks just passed, and passes their warnings on."""

import inspect
import re
import warnings

from gradebox.errors import GraderWarning
from gradebox.schemas import GraderRecord

_ON_ANNOTATION = re.compile(r"line \d+: annotate ")


def proved_grader(body: bytes) -> GraderRecord:
    """The grader. Each warning of the checks becomes a GraderWarning at the line that called gradebox, but for those
    about annotations: no score depends on them.
    """
    grader = GraderRecord.model_validate_json(body)
    for warning in grader.warnings:
        if not _ON_ANNOTATION.match(warning):
            warnings.warn(f"{grader.key}@{grader.version}: {warning}", GraderWarning, stacklevel=_callers_level())
    return grader


def _callers_level() -> int:
    """The `stacklevel`, as seen from this function's caller, of the first function outside this package."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("gradebox."):
        level, frame = level + 1, frame.f_back
    return max(1, level)
