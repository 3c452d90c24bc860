"""Tests of the choice of a scorer for a version."""

from typing import Any

import pytest

from gradebox.schemas import Kind
from models.scoring.scoring import is_of_graders

CHECKS = {"kind": "checks", "config": {"checks": [{"check": "matches", "pattern": "("}]}}


@pytest.mark.parametrize(
    ("kind", "config", "expected"),
    [
        ("combine", {"parts": ["a", "b@2"]}, True),
        ("combine", {"parts": {"a": "a", "b": {"grader": "b", "weight": 2}}}, True),
        ("combine", {"parts": {"a": "a", "b": CHECKS}}, False),
        ("judge", {"criterion": "polite", "model": "m"}, False),
        ("function", None, False),
    ],
)
def test_no_part_is_created_to_tell_what_a_combination_is_of(
    kind: Kind, config: dict[str, Any] | None, expected: bool
) -> None:
    """The pattern is none: creating the part would raise."""
    assert is_of_graders(kind, config) is expected
