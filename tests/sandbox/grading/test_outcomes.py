"""Tests that any bytes from a sandbox become well-formed outcomes."""

import math
import struct
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gradebox.limits import LINE_BYTES
from gradebox.outcome import Outcome, details_of
from sandbox.grader_source import GraderSource
from sandbox.grading.outcomes import KINDS, Asked, Decoder
from sandbox.guest.protocol.fields import (
    CAUSE,
    DETAILS,
    FIELD,
    MAX_FIELD,
    MAX_FIELDS,
    MESSAGE,
    REASON,
    REPLY,
    REQUESTS,
    STDOUT,
    TRACE,
    VALUE,
    VALUES,
    Malformed,
    pack_requests,
    pack_values,
)
from sandbox.guest.protocol.records import (
    ASKED,
    BAD_INPUT,
    BAD_RETURN,
    CRASH,
    EXCEPTION,
    MARK,
    MEMORY,
    MODEL,
    NOT_APPLICABLE,
    RECORD,
    SCORED,
    TIMEOUT,
    Records,
    pack_record,
    read_records,
)
from sandbox.limits import STDOUT_BYTES, TEXT_BYTES, limits_of
from tests.sandbox.guest.protocol.test_frames import flipped

LIMITS = limits_of(GraderSource(""), 1.0, LINE_BYTES, STDOUT_BYTES)

fields = st.dictionaries(st.sampled_from(sorted(MAX_FIELD)), st.binary(max_size=12) | st.just(b"12")).map(
    lambda found: list(found.items())
)
records = st.builds(pack_record, st.integers(0, 12), st.integers(0, 2**32), st.floats(), fields | st.just([]))
# Bytes that are nearly records: whole ones, cut ones, and heads with any length and kind.
lying = st.builds(RECORD.pack, st.integers(0, 2**32 - 1), st.floats(), *[st.integers(0, 2**32 - 1)] * 2)
marked = st.builds(
    lambda length, kind: RECORD.pack(0, 0.0, length, MARK | kind), st.integers(0, 2 * MAX_FIELDS), st.integers(0, 255)
)
nearly = st.lists(st.one_of(records, lying, marked, st.binary(max_size=400)), max_size=6).map(b"".join)

IDS: list[str | int | None] = ["a", None, 7, "", "ü", 0] * 50


def _decoder(out_of_memory: bool = False) -> Decoder:
    return Decoder("g@1", LIMITS, lambda: out_of_memory)


def _whole(data: bytes) -> list[Outcome] | None:
    """The outcomes of the whole records at the start; None if a head is malformed."""
    try:
        found, _ = read_records(data)
    except Malformed:
        return None
    outcomes = _decoder().decode(found, 5, IDS[: found.number])
    assert [outcome.id for outcome in outcomes] == IDS[: found.number]
    return outcomes


def _records(*packed: bytes) -> Records:
    return read_records(b"".join(packed))[0]


def _assert_well_formed(outcomes: list[Outcome]) -> None:
    for index, outcome in enumerate(outcomes, 5):
        assert (outcome.index, outcome.grader) == (index, "g@1")
        assert [outcome.score, outcome.error, outcome.not_applicable].count(None) == 2
        assert outcome.score is None or math.isfinite(outcome.score)
        assert 0 <= outcome.run_ms < 2**32
        assert outcome.error is None or outcome.error.kind == "model" or not outcome.error.retryable
        assert outcome.error is None or (outcome.error.kind == "model") == (outcome.error.cause is not None)


@settings(max_examples=200)
@given(nearly | flipped(records))
@example(RECORD.pack(0, 0.0, 0, MARK | SCORED) + RECORD.pack(0, 0.0, MAX_FIELDS, MARK | SCORED))
@example(RECORD.pack(0, math.nan, 0, MARK | SCORED))
def test_bytes_of_any_content(data: bytes) -> None:
    _assert_well_formed(_whole(data) or [])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_scores_come_back_bit_for_bit(scores: list[float]) -> None:
    data = b"".join(pack_record(SCORED, 1500, score, []) for score in scores)
    outcomes = _decoder().decode(_records(data), 5, [None] * len(scores))
    assert outcomes == [Outcome(index, "g@1", score, 1.5) for index, score in enumerate(scores, 5)]
    told = [outcome.score for outcome in outcomes if outcome.score is not None]
    assert struct.pack(f"{len(scores)}d", *told) == struct.pack(f"{len(scores)}d", *scores)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("packed", [[], [(REASON, b"good")]])
def test_a_score_that_is_not_finite_is_none(score: float, packed: list[tuple[int, bytes]]) -> None:
    good = pack_record(SCORED, 1, 1.0, [])
    outcomes = _decoder().decode(_records(good, pack_record(SCORED, 1, score, packed), good), 0, [None] * 3)
    assert [outcome.score for outcome in outcomes] == [1.0, None, 1.0]
    error = outcomes[1].error
    assert error is not None and error.kind == "bad_return"
    assert outcomes[1].reason is None


@pytest.mark.parametrize("kind", [EXCEPTION, BAD_RETURN, TIMEOUT, MEMORY, CRASH, BAD_INPUT])
def test_an_error_has_its_message_and_no_score(kind: int) -> None:
    decoder = _decoder()
    packed = [(MESSAGE, b"what"), (TRACE, b"where"), (STDOUT, b"\xff"), (REASON, b"none")]
    (outcome,) = decoder.decode(_records(pack_record(kind, 2000, 1.0, packed)), 9, ["me"])
    assert outcome.error is not None and (outcome.error.kind, outcome.error.message) == (KINDS[kind], "what")
    assert (outcome.score, outcome.run_ms, outcome.id, outcome.stdout) == (None, 2.0, "me", "\ufffd")
    assert outcome.reason is None
    assert decoder.traces == {9: "where"}


def _assert_spoiled(record: bytes, message: str) -> None:
    """Asserts that a record is a crash of its completion, and that its neighbors keep their scores and ids."""
    before = pack_record(SCORED, 1, 1.0, [(REASON, b"good")])
    behind = pack_record(SCORED, 1, 0.5, [])
    first, spoiled, last = _decoder().decode(_records(before, record, behind), 3, ["first", 7, "last"])
    assert first == Outcome(3, "g@1", 1.0, 0.001, "first", "good")
    assert last == Outcome(5, "g@1", 0.5, 0.001, "last")
    assert (spoiled.index, spoiled.score, spoiled.id, spoiled.reason) == (4, None, 7, None)
    assert spoiled.error is not None and spoiled.error.kind == "crash"
    assert message in spoiled.error.message


@pytest.mark.parametrize(
    "body",
    [
        b"\1",
        FIELD.pack(STDOUT, 6) + b"other",  # reaches into the next record
        FIELD.pack(REASON, 2**32 - 1) + b"x",
        FIELD.pack(MESSAGE, 1) + b"xy",
        FIELD.pack(MESSAGE, 0) * 2,
        FIELD.pack(13, 1) + b"x",
        FIELD.pack(0, 0),
        FIELD.pack(REASON, TEXT_BYTES + 1) + b"x" * (TEXT_BYTES + 1),
    ],
)
def test_fields_that_break_a_rule_cost_their_own_completion(body: bytes) -> None:
    _assert_spoiled(RECORD.pack(1, 1.0, len(body), MARK | SCORED) + body, "field")


@pytest.mark.parametrize("packed", [[], [(MESSAGE, b"x")]])
@pytest.mark.parametrize("kind", [0, ASKED, 11, 77, 255])
def test_a_kind_that_there_is_not(kind: int, packed: list[tuple[int, bytes]]) -> None:
    _assert_spoiled(pack_record(kind, 1, 1.0, packed), f"(a record of kind {kind})")


def test_a_crash_is_of_memory_where_the_kernel_says_so() -> None:
    data = pack_record(CRASH, 1, 0.0, [(MESSAGE, b"signal 9")]) + pack_record(TIMEOUT, 1, 0.0, [])
    outcomes = _decoder(out_of_memory=True).decode(_records(data), 0, [None, None])
    assert [outcome.error and outcome.error.kind for outcome in outcomes] == ["memory", "timeout"]


@pytest.mark.parametrize(("tag", "most"), [(STDOUT, STDOUT_BYTES), (REASON, TEXT_BYTES), (MESSAGE, TEXT_BYTES)])
def test_a_text_over_the_limits_in_force_is_refused(tag: int, most: int) -> None:
    """Frames could carry more, because other graders may have higher limits."""
    assert _decoder().decode(_records(pack_record(SCORED, 1, 1.0, [(tag, b"x" * most)])), 0, [None])[0].score == 1.0
    _assert_spoiled(pack_record(SCORED, 1, 1.0, [(tag, b"x" * (most + 1))]), f"(field {tag} of {most + 1} bytes)")


def _value(name: bytes, number: float = 1.0) -> bytes:
    return VALUE.pack(number, len(name)) + name


@pytest.mark.parametrize(
    "data",
    [
        b"".join(_value(b"%d" % number) for number in range(17)),
        _value(b"a") * 2,
        _value(b""),
        _value(b"x" * 65),
        _value(b"\n"),
        _value(b"\xff"),
        _value(b"\xed\xa0\x80"),  # half a surrogate pair
        _value(b"a", math.nan),
        _value(b"a", math.inf),
        _value(b"a")[:-1],
        _value(b"a") + b"x",
    ],
)
def test_values_that_break_a_rule_cost_their_own_completion(data: bytes) -> None:
    _assert_spoiled(pack_record(SCORED, 1, 1.0, [(VALUES, data)]), "a value")


def test_details_come_back_as_they_are() -> None:
    packed = pack_record(SCORED, 1, 0.5, [(DETAILS, '{"wähl":["ja",1,null,0.5]}'.encode())])
    (outcome,) = _decoder().decode(_records(packed), 0, [None])
    assert details_of(outcome) == {"wähl": ["ja", 1, None, 0.5]}


def test_details_take_about_as_much_memory_as_they_have_bytes() -> None:
    data = b'{"a":[%s[]]}' % (b"[]," * 5000)
    packed = pack_record(SCORED, 1, 0.5, [(DETAILS, data)])
    decoder = _decoder()
    tracemalloc.start()
    outcomes = [decoder.decode(_records(packed), number, [None]) for number in range(50)]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(outcomes) == 50
    assert taken < 2 * 50 * len(data)  # as lists, they would take twenty times as much


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"1",
        b"{",
        b'{"a":NaN}',
        b'{"a":"\xff"}',
        b'{"a":' * 3000,
        b'{"a":%s}' % (b"9" * 9000),
        b'{"a":1e999}',
        b'{"a":%s%s}' % (b"[" * 200, b"]" * 200),
    ],
)
def test_details_that_are_none_cost_their_own_completion(data: bytes) -> None:
    _assert_spoiled(pack_record(SCORED, 1, 1.0, [(DETAILS, data)]), "details")


def test_a_grader_that_does_not_apply_has_neither_a_score_nor_an_error() -> None:
    packed = pack_record(NOT_APPLICABLE, 1, 1.0, [(MESSAGE, b"no documents"), (STDOUT, b"printed")])
    (outcome,) = _decoder().decode(_records(packed), 0, ["me"])
    assert outcome == Outcome(0, "g@1", None, 0.001, "me", stdout="printed", not_applicable="no documents")


def test_an_ask_that_failed_says_how() -> None:
    fields = [(MESSAGE, b"away"), (CAUSE, b"\x01unreachable"), (REPLY, b"<html>"), (TRACE, b"where")]
    (outcome,) = _decoder().decode(_records(pack_record(MODEL, 1, 1.0, fields)), 0, [None])
    assert outcome.score is None
    error = outcome.error
    assert error is not None
    assert (error.kind, error.cause, error.retryable, error.reply) == ("model", "unreachable", True, "<html>")


@pytest.mark.parametrize("cause", [None, b"", b"\x00", b"\x00fine", b"unreachable"])
def test_an_ask_that_failed_and_does_not_say_how_is_spoiled(cause: bytes | None) -> None:
    fields = [(MESSAGE, b"away")] if cause is None else [(MESSAGE, b"away"), (CAUSE, cause)]
    _assert_spoiled(pack_record(MODEL, 1, 1.0, fields), "an ask that failed")


def test_a_run_that_asks_says_what() -> None:
    asks = [b'{"ask":"model"}', b'{"ask":"once"}']
    (run,) = _decoder().decode_runs(_records(pack_record(ASKED, 2000, 1.0, [(REQUESTS, pack_requests(asks))])), 3, [7])
    assert run == Asked(3, 7, 2.0, asks)


@pytest.mark.parametrize("data", [None, b"", b"\x01", bytes(4), b"\x02\x00\x00\x00a", b"\x02\x00\x00\x00a\n"])
def test_asks_that_are_none_cost_their_own_completion(data: bytes | None) -> None:
    fields = [] if data is None else [(REQUESTS, data)]
    (run,) = _decoder().decode_runs(_records(pack_record(ASKED, 1, 1.0, fields)), 0, [None])
    assert isinstance(run, Outcome)
    assert run.error is not None and run.error.kind == "crash"


def test_an_error_has_no_values() -> None:
    packed = pack_record(EXCEPTION, 1, 0.0, [(VALUES, pack_values({"a": 1.0}))])
    assert _decoder().decode(_records(packed), 0, [None])[0].values is None
