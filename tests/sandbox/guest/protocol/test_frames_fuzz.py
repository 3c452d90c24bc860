"""Tests that readers of a sandbox's bytes raise Malformed or return values within bounds, for any bytes."""

import math
import struct
from contextlib import suppress

from hypothesis import example, given
from hypothesis import strategies as st

from gradebox.limits import LINE_BYTES
from gradebox.outcome import Outcome
from sandbox.grader_source import GraderSource
from sandbox.guest.protocol.frames import (
    BAD_INPUT,
    CHECK_HEAD,
    FIELD,
    MARK,
    MAX_FIELD,
    MAX_FIELDS,
    MAX_STDOUT,
    MAX_TEXT,
    RECORD,
    SCORED,
    CheckResult,
    Malformed,
    Records,
    pack_check,
    pack_record,
    read_records,
    unpack_check,
    unpack_fields,
)
from sandbox.limits import limits_of
from sandbox.outcomes import KINDS, Decoder

MOST = limits_of(GraderSource(""), 1.0, LINE_BYTES, MAX_STDOUT)._replace(text_bytes=MAX_TEXT)
ANY = st.binary(max_size=400)
KIND = st.sampled_from([SCORED, *KINDS])
FIELDS = st.dictionaries(st.sampled_from(sorted(MAX_FIELD)), st.binary(max_size=18)).map(
    lambda found: list(found.items())
)
RECORDS = st.builds(pack_record, KIND, st.integers(0, 1 << 40), st.floats(allow_nan=True, allow_infinity=True), FIELDS)
# Bytes that are nearly records: whole ones, cut ones, and heads with wrong lengths.
LYING = st.builds(
    RECORD.pack, st.integers(0, 2**32 - 1), st.floats(), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)
)
MARKED = st.builds(
    lambda length, kind: RECORD.pack(0, 0.0, length, MARK | kind), st.integers(0, 2 * MAX_FIELDS), st.integers(0, 255)
)
NEARLY = st.lists(st.one_of(RECORDS, LYING, MARKED, ANY), max_size=6).map(b"".join)


def decode(records: Records) -> list[Outcome]:
    return Decoder("exact@1", MOST, lambda: False).decode(records, 7, [None] * records.number)


def is_sound(outcome: Outcome) -> bool:
    """Whether there is exactly one of a finite score, an error and `not_applicable`."""
    return [outcome.score, outcome.error, outcome.not_applicable].count(None) == 2 and (
        outcome.score is None or math.isfinite(outcome.score)
    )


@given(NEARLY)
@example(RECORD.pack(0, 0.0, 0, MARK | SCORED) + RECORD.pack(0, 0.0, MAX_FIELDS, MARK | SCORED))
@example(RECORD.pack(0, math.nan, 0, MARK | SCORED))
def test_whatever_comes_gives_sound_outcomes(data: bytes) -> None:
    try:
        records, whole = read_records(data)
    except Malformed:
        return
    assert whole <= len(data)
    assert len(data) - whole < RECORD.size + MAX_FIELDS
    outcomes = decode(records)
    assert [outcome.index for outcome in outcomes] == list(range(7, 7 + records.number))
    assert all(map(is_sound, outcomes))


@given(st.lists(RECORDS, max_size=8))
def test_records_are_counted_wherever_they_are_cut(records: list[bytes]) -> None:
    data = b"".join(records)
    found, whole = read_records(data)
    assert (found.number, whole) == (len(records), len(data))
    for cut in range(len(data)):
        found, whole = read_records(data[:cut])
        assert whole == sum(map(len, records[: found.number])) <= cut
        assert found.number == len(records) or cut < whole + len(records[found.number])


@given(ANY)
@example(FIELD.pack(1, 1024))
@example(FIELD.pack(1, 0) * 2)
def test_fields_are_within_their_bounds(data: bytes) -> None:
    with suppress(Malformed):
        fields = unpack_fields(data, MAX_FIELD)
        assert all(len(value) <= MAX_FIELD[tag] for tag, value in fields.items())
        assert sum(FIELD.size + len(value) for value in fields.values()) == len(data)


@given(st.integers(2**32, 2**80), st.floats())
def test_a_time_that_is_too_long_to_be_told_is_cut(micros: int, score: float) -> None:
    (outcome,) = decode(Records(pack_record(BAD_INPUT, micros, score, []), b""))
    assert outcome.run_ms == (2**32 - 1) / 1000
    assert outcome.score is None


@given(st.one_of(ANY, st.builds(lambda head, rest: head + rest, st.binary(min_size=26, max_size=26), ANY)))
def test_any_bytes_are_a_check_or_malformed(data: bytes) -> None:
    with suppress(Malformed):
        check = unpack_check(data)
        assert 0 <= check.number <= 3
        assert len(data) >= CHECK_HEAD.size


@given(st.text(), st.text(max_size=MAX_TEXT * 2), st.integers(0, 3), st.booleans())
def test_a_check_comes_out_as_it_went_in_but_for_its_length(
    message: str, trace: str, number: int, passed: bool
) -> None:
    check = CheckResult(number, passed, 3, 4, 5, message, trace)
    data = pack_check(check)
    assert len(data) <= CHECK_HEAD.size + 2 * MAX_TEXT
    found = unpack_check(data)
    assert found[:5] == check[:5]
    with suppress(UnicodeEncodeError):
        if len(message.encode()) <= MAX_TEXT:
            assert found.message == message


def test_bytes_that_lie_about_their_length_hold_no_memory() -> None:
    for length in (MAX_FIELDS + 1, 2**32 - 1):
        data = struct.pack("<IdII", 0, 0.0, length, MARK | SCORED)
        try:
            read_records(data)
        except Malformed:
            continue
        raise AssertionError(f"a record of {length} bytes was waited for")
