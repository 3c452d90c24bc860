"""Tests that outcomes are read from their lines as they were written, with their details as JSON."""

import tracemalloc

import msgspec
import pytest

from gradebox.outcome import CompletionScore, Outcome, OutcomeError, details_of, read_outcomes

OUTCOMES = [
    Outcome(0, "g@1", 0.5, 1.0, "a", reason="a\r\n\u2028b", details={"option": "yes", "of": [1, None, {"x": 0.5}]}),
    Outcome(1, "g@1", None, 1.0, error=OutcomeError("exception", "no")),
    Outcome(2, "g@1", 1.0, 1.0, scores=[CompletionScore(1.0, details={"won": [1]}), CompletionScore(1.0)]),
]


def test_outcomes_come_back_as_they_were_written() -> None:
    lines = msgspec.json.Encoder().encode_lines(OUTCOMES)
    found = read_outcomes(lines)
    assert msgspec.json.Encoder().encode_lines(found) == lines
    assert [details_of(one) for one in found] == [one.details for one in OUTCOMES]
    assert [details_of(score) for score in found[2].scores or ()] == [{"won": [1]}, None]


def test_a_line_that_is_cut_off_is_no_outcome() -> None:
    with pytest.raises(msgspec.DecodeError):
        read_outcomes(msgspec.json.Encoder().encode_lines(OUTCOMES)[:-5])


def test_details_that_were_read_take_about_as_much_memory_as_they_have_bytes() -> None:
    details: dict[str, object] = {"a": [[]] * 5000}
    full = [
        Outcome(0, "g@1", 1.0, 1.0, details=details),
        Outcome(1, "g@1", 1.0, 1.0, scores=[CompletionScore(1.0, details=details)]),
    ]
    lines = msgspec.json.Encoder().encode_lines(full) * 50
    tracemalloc.start()
    found = read_outcomes(lines)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 100
    assert taken < 2 * len(lines)  # as lists, they would take twenty times as much
