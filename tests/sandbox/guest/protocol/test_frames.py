from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.guest.protocol.fields import (
    FIELD,
    MAX_FIELD,
    MAX_FIELDS,
    MAX_TEXT,
    REASON,
    STDOUT,
    Malformed,
    encode,
    unpack_fields,
    unpack_requests,
)
from sandbox.guest.protocol.frames import MAX_REPLY, CheckResult, pack_check, unpack_check
from sandbox.guest.protocol.records import (
    MARK,
    RECORD,
    SCORED,
    Records,
    length_of_bodies,
    pack_record,
    pack_records,
    put_before_output,
    read_records,
    split_records,
    unpack_records,
)

fields = st.dictionaries(st.sampled_from(sorted(MAX_FIELD)), st.binary(max_size=20)).map(lambda of: list(of.items()))
records = st.builds(pack_record, st.integers(0, 255), st.integers(0, 2**40), st.floats(), fields)


def _in_columns(packed: list[bytes]) -> Records:
    return Records(b"".join(one[: RECORD.size] for one in packed), b"".join(one[RECORD.size :] for one in packed))


@given(st.binary(max_size=20), st.none() | st.binary(max_size=20), st.binary(max_size=20))
def test_output_is_put_before_that_of_a_record(reason: bytes, later: bytes | None, printed: bytes) -> None:
    others = [] if later is None else [(STDOUT, later)]
    record = _in_columns([pack_record(SCORED, 7, 0.5, [(REASON, reason), *others])])
    whole = (printed + (later or b""))[:30]
    expected = _in_columns([pack_record(SCORED, 7, 0.5, [(REASON, reason), (STDOUT, whole)])])
    assert put_before_output(record, printed, {REASON: 20, STDOUT: 30}) == expected


@given(st.lists(records, max_size=4), st.integers(0, 4))
def test_records_are_split(packed: list[bytes], first: int) -> None:
    parts = split_records(_in_columns(packed), first)
    assert parts == (_in_columns(packed[:first]), _in_columns(packed[first:]))


@given(st.lists(records, max_size=4))
def test_whole_records_are_read_and_the_rest_waits(packed: list[bytes]) -> None:
    whole = b"".join(packed)
    ends = [*accumulate(map(len, packed), initial=0)]
    for cut in range(len(whole) + 1):
        expected = max(count for count, end in enumerate(ends) if end <= cut)
        assert read_records(bytearray(whole[:cut])) == (_in_columns(packed[:expected]), ends[expected])


@given(st.lists(records, max_size=8).map(_in_columns))
def test_records_come_back_out_of_a_frame(packed: Records) -> None:
    assert unpack_records(pack_records(packed)) == packed


@given(st.lists(records, min_size=1, max_size=4).map(_in_columns), st.data())
def test_a_frame_that_was_cut_or_continued_is_malformed(packed: Records, data: st.DataObject) -> None:
    payload = pack_records(packed)
    for broken in (payload[: data.draw(st.integers(0, len(payload) - 1))], payload + b"x"):
        with pytest.raises(Malformed):
            unpack_records(broken)


@given(st.binary(max_size=400))
def test_a_frame_of_arbitrary_bytes_is_malformed_or_adds_up(payload: bytes) -> None:
    for tried in (payload, b"\0\0\0\2" + payload):
        try:
            found = unpack_records(tried)
        except Malformed:
            continue
        assert pack_records(found) == tried


@pytest.mark.parametrize("length", [1, 2**31, 2**32 - 1])
def test_lengths_are_summed_and_do_not_wrap(length: int) -> None:
    heads = RECORD.pack(1, 1.0, length, MARK | SCORED) * 3
    assert length_of_bodies(heads) == 3 * length


def _flip(data: bytes, place: int, bits: int) -> bytes:
    broken = bytearray(data)
    broken[place % len(data)] ^= bits
    return bytes(broken)


def flipped(records: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Some records, one byte of which is another."""
    packed = st.lists(records, min_size=1, max_size=4).map(b"".join)
    return st.builds(_flip, packed, st.integers(0, 2**16), st.integers(1, 255))


@settings(max_examples=200)
@given(st.binary(max_size=400) | flipped(records))
def test_arbitrary_bytes_are_malformed_or_counted_within_bounds(data: bytes) -> None:
    try:
        found, length = read_records(data)
    except Malformed:
        return
    assert len(found.heads) + len(found.bodies) == length <= len(data)
    assert len(data) - length < RECORD.size or data[length + 17 : length + 20] == MARK.to_bytes(4, "little")[1:]


@pytest.mark.parametrize("length", [MAX_FIELDS + 1, 2**32 - 1])
def test_a_record_over_the_bound(length: int) -> None:
    with pytest.raises(Malformed, match="no record"):
        read_records(RECORD.pack(1, 1.0, length, MARK | SCORED))


def test_the_largest_record_fits_into_one_reply() -> None:
    assert read_records(RECORD.pack(1, 1.0, MAX_FIELDS, MARK | SCORED)) == (Records(b"", b""), 0)
    assert RECORD.size + MAX_FIELDS < MAX_REPLY


@pytest.mark.parametrize("mark", [0, 1, MARK ^ (1 << 8), MARK ^ (1 << 31)])
def test_bytes_without_the_mark(mark: int) -> None:
    head = RECORD.pack(1, 0.0, 0, mark)
    with pytest.raises(Malformed, match="no record"):
        read_records(head)
    for heads in (head, pack_record(SCORED, 1, 0.5, []) + head):
        with pytest.raises(Malformed, match="no record"):
            length_of_bodies(heads)


def test_a_run_of_hours_is_the_longest_that_is_told() -> None:
    assert RECORD.unpack(pack_record(SCORED, 2**50, 1.0, []))[0] == 2**32 - 1


@given(fields)
def test_fields_come_back(packed: list[tuple[int, bytes]]) -> None:
    assert unpack_fields(pack_record(SCORED, 1, 1.0, packed)[RECORD.size :], MAX_FIELD) == dict(packed)


@given(st.binary(max_size=200))
def test_fields_of_arbitrary_bytes_are_within_their_bounds(body: bytes) -> None:
    try:
        found = unpack_fields(body, MAX_FIELD)
    except Malformed:
        return
    assert sum(FIELD.size + len(value) for value in found.values()) == len(body)
    assert all(len(value) <= MAX_FIELD[tag] for tag, value in found.items())


number, text = st.integers(0, 2**32 - 1), st.text(max_size=50)
checks = st.builds(CheckResult, st.integers(0, 3), st.booleans(), *[number] * 3, text, text)


@given(checks)
def test_a_check_comes_back(check: CheckResult) -> None:
    escaped = [text.encode("utf-8", "backslashreplace").decode() for text in (check.message, check.trace)]
    assert unpack_check(pack_check(check)) == check._replace(message=escaped[0], trace=escaped[1])


@given(st.binary(max_size=100), checks, st.integers(0, 120))
def test_a_check_of_arbitrary_bytes_is_malformed_or_a_check(data: bytes, check: CheckResult, cut: int) -> None:
    for payload in (data, pack_check(check)[:cut], pack_check(check) + data):
        try:
            found = unpack_check(payload)
        except Malformed:
            continue
        assert 0 <= found.number <= 3


def test_a_fifth_check_is_refused() -> None:
    with pytest.raises(Malformed, match="do not add up"):
        unpack_check(pack_check(CheckResult(4, True, 0, 0, 0, "", "")))


def test_the_largest_check_fits_into_one_reply() -> None:
    payload = pack_check(CheckResult(0, False, 1, 1, 1, "é" * 10**6, "\udcff" * 10**6))
    assert len(payload) < MAX_REPLY
    check = unpack_check(payload)
    assert check.message.endswith("é…")
    assert len(check.trace.encode()) <= MAX_TEXT


@given(st.text(), st.integers(3, 40))
def test_texts_are_cut_between_characters(text: str, limit: int) -> None:
    data = encode(text, limit)
    whole = text.encode("utf-8", "backslashreplace")
    assert len(data) <= limit
    if len(whole) <= limit:
        assert data == whole
    else:
        assert data.endswith("…".encode())
        assert whole.startswith(data[:-3])
        assert len(data) > limit - 4 or not data.isascii()


@pytest.mark.parametrize("data", [b"", b"\x02\0\0\0{}\x02\0\0", b"\x03\0\0\0{}", b"\0\0\0\0", b"\x02\0\0\0{\n"])
def test_asks_that_are_none(data: bytes) -> None:
    assert unpack_requests(b"\x02\0\0\0{}" * 2) == [b"{}", b"{}"]
    with pytest.raises(Malformed):
        unpack_requests(data)
