"""Reads the answer about a grader that passed the five checks, and issues the checks' warnings."""

import re

from gradebox.schemas import GraderRecord
from gradebox.warn import warn

_ON_ANNOTATION = re.compile(r"line \d+: annotate ")


def proved_grader(body: bytes) -> GraderRecord:
    """Reads the grader, and issues each warning of the checks as a GraderWarning at the line that called gradebox.

    Warnings about annotations are left out, since no score depends on them.
    """
    grader = GraderRecord.model_validate_json(body)
    for warning in grader.warnings:
        if not _ON_ANNOTATION.match(warning):
            warn(f"{grader.key}@{grader.version}: {warning}")
    return grader
