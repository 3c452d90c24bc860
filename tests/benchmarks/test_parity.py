"""Tests that our judges compare with the real packages as each case states, on scripted decisions."""

import json

import pytest

from benchmarks.parity.__main__ import KEPT, verdict
from benchmarks.parity.cases import CASES, Case
from benchmarks.parity.ours import Rows

_THEIRS: list[Rows] = json.loads(KEPT.read_text())


@pytest.mark.parametrize(
    ("case", "theirs"),
    [
        pytest.param(case, theirs, id=f"{case.given['kind']}: {case.name}")
        for case, theirs in zip(CASES, _THEIRS, strict=True)
    ],
)
def test_a_case_compares_as_it_says(case: Case, theirs: Rows) -> None:
    assert verdict(theirs, case) == case.verdict
    assert bool(case.why) == (case.verdict != "equal")
