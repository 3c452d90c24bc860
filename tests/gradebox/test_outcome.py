"""Tests that outcomes are read from their lines as they were written, with their details as JSON."""

import json
import tracemalloc

import msgspec
import pytest

from gradebox.outcome import (
    CompletionScore,
    Outcome,
    OutcomeDecoder,
    OutcomeError,
    completion_scores,
    details_of,
    read_outcomes,
    with_completion_scores,
)
from tests.earlier_outcomes import in_earlier_form

RESULTS = [
    CompletionScore(1.0, "so", values={"a": 1.0}, details={"won": [1]}),
    CompletionScore(None, error=OutcomeError("model", "no", True, "unreachable"), details={"won": []}),
    CompletionScore(None, not_applicable="it says nothing"),
]
OUTCOMES = [
    Outcome(0, "g@1", 0.5, 1.0, "a", reason="a\r\n\u2028b", details={"option": "yes", "of": [1, None, {"x": 0.5}]}),
    Outcome(1, "g@1", None, 1.0, error=OutcomeError("exception", "no")),
    with_completion_scores(Outcome(2, "g@1", None, 1.0, error=OutcomeError("model", "no", True)), RESULTS),
    with_completion_scores(Outcome(3, "g@1", 0.75, 1.0), [CompletionScore(0.5), CompletionScore(1.0)]),
]


def test_outcomes_come_back_as_they_were_written() -> None:
    lines = msgspec.json.Encoder().encode_lines(OUTCOMES)
    found = read_outcomes(lines)
    assert msgspec.json.Encoder().encode_lines(found) == lines
    assert [details_of(one) for one in found] == [OUTCOMES[0].details, None, None, None]
    assert [details_of(score) for score in completion_scores(found[2])] == [{"won": [1]}, {"won": []}, None]
    assert completion_scores(OUTCOMES[2]) == RESULTS


def test_the_outcome_of_a_group_has_a_list_of_each_part() -> None:
    told, plain = (json.loads(msgspec.json.encode(outcome)) for outcome in OUTCOMES[2:])
    assert told["scores"] == [1.0, None, None]
    assert told["details"] == [{"won": [1]}, {"won": []}, None]
    error = {"kind": "model", "message": "no", "retryable": True, "cause": "unreachable"}
    passed_over = {"not_applicable": "it says nothing"}
    assert told["completions"] == [{"reason": "so", "values": {"a": 1.0}}, {"error": error}, passed_over]
    assert (plain["scores"], plain.keys() & {"details", "completions"}) == ([0.5, 1.0], set())


def test_lines_that_an_earlier_checkout_wrote_mean_the_same() -> None:
    now = msgspec.json.Encoder().encode_lines(OUTCOMES).splitlines(keepends=True)
    earlier = [in_earlier_form(line) for line in now]
    assert [old == new for old, new in zip(earlier, now, strict=True)] == [True, True, False, False]
    for lines in (b"".join(earlier), b"".join([*earlier[:3], now[3]])):
        assert OutcomeDecoder(Outcome).decode_lines(lines) == OUTCOMES
        assert msgspec.json.Encoder().encode_lines(read_outcomes(lines)) == b"".join(now)


@pytest.mark.parametrize("scores", ["[0.5,{}]", '["a"]', '[{"reason":"a"}]', "1"])
def test_scores_of_no_form_are_refused(scores: str) -> None:
    line = f'{{"index":0,"grader":"g@1","score":0.5,"run_ms":1.0,"scores":{scores}}}\n'.encode()
    for read in (read_outcomes, OutcomeDecoder(Outcome).decode, OutcomeDecoder(Outcome).decode_lines):
        with pytest.raises(msgspec.ValidationError, match="Expected"):
            read(line)


def test_a_line_that_is_cut_off_is_no_outcome() -> None:
    with pytest.raises(msgspec.DecodeError):
        read_outcomes(msgspec.json.Encoder().encode_lines(OUTCOMES)[:-5])


def test_details_that_were_read_take_about_as_much_memory_as_they_have_bytes() -> None:
    details: dict[str, object] = {"a": [[]] * 5000}
    full = [Outcome(0, "g@1", 1.0, 1.0, details=details), Outcome(1, "g@1", 1.0, 1.0, scores=[1.0], details=[details])]
    lines = msgspec.json.Encoder().encode_lines(full) * 50
    tracemalloc.start()
    found = read_outcomes(lines)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 100
    assert taken < 2 * len(lines)  # as lists, they would take twenty times as much
