import itertools
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox.guest.child import shared_records
from sandbox.guest.protocol.chunk import SHARED_BYTES
from storage.errors import Refused, TooLarge
from storage.spool import chunks
from storage.spool.chunks import Chunk, Cutter, holding, pack, unpack


def cut(*pieces: bytes, **options: Any) -> list[Chunk]:
    cutter = Cutter(**options)
    for piece in pieces:
        cutter.feed(piece)
    return cutter.finish()


def cut_at(data: bytes, ends: list[int], **options: Any) -> list[Chunk]:
    """The chunks of data that comes in pieces with these ends."""
    ends = sorted({min(end, len(data)) for end in ends})
    return cut(*(data[start:end] for start, end in itertools.pairwise([0, *ends, len(data)])), **options)


def test_chunks_grow_with_the_batch_up_to_their_bound() -> None:
    few = [chunk.lines for chunk in cut(b"{}\n" * 800)]
    assert few == [200, 200, 200, 200]
    slow = [chunk.lines for chunk in cut(b"{}\n" * 24, line_ms=1000.0)]
    assert slow == [2] * 12  # keeps two workers busy to the end
    many = [chunk.lines for chunk in cut(b"{}\n" * 20_000)]
    assert many[:-1] == sorted(many[:-1])
    assert max(many) == 1000


@pytest.mark.parametrize(("line_ms", "first"), [(0.0, 200), (5.0, 200), (20.0, 100), (1000.0, 2), (60_000.0, 1)])
def test_lines_that_take_long_are_in_small_chunks(line_ms: float, first: int) -> None:
    found = [chunk.lines for chunk in cut(b"{}\n" * 20_000, line_ms=line_ms)]
    assert found[0] == first
    assert max(found) == 1000
    assert sum(found) == 20_000
    assert len(found) < 250


def test_a_chunk_fits_into_the_memory_that_sandboxes_share() -> None:
    assert chunks.CHUNK_BYTES + 512 * 1024 <= SHARED_BYTES  # its last line may pass the bound
    assert chunks.FAST_CHUNK_LINES <= shared_records.MOST


def test_a_line_that_is_too_long_is_named_before_it_ends() -> None:
    cutter = Cutter(line_bytes=8)
    cutter.feed(b"12345678\n12345678")
    cutter.feed(b"\n12345")
    with pytest.raises(TooLarge, match="line 3 is longer than 8 bytes"):
        cutter.feed(b"6789")
    with pytest.raises(TooLarge, match="line 3 is longer than 8 bytes"):
        cut(b"{}\n12345678\n123456789\n{}\n", line_bytes=8)


@given(
    st.lists(st.sampled_from([b"{}", b"\n", b"{}\n" * 7, b" ", b'{"a": 1}\n']), max_size=60),
    st.integers(1, 9),
    st.integers(4, 40),
)
def test_chunks_end_where_lines_or_bytes_are_enough(parts: list[bytes], lines: int, size: int) -> None:
    payload = b"x" + b"".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_BYTES", size)
        found = cut(payload, first_lines=lines, chunk_lines=lines)
        bytewise = [bytes([byte]) for byte in payload]
        assert found == cut(*bytewise, first_lines=lines, chunk_lines=lines)
    for chunk, following in itertools.pairwise(found):
        held = payload[chunk.offset : following.offset]
        assert held.count(b"\n") == chunk.lines <= lines
        assert chunk.lines == lines or len(held) >= size
        assert len(held[: held[:-1].rfind(b"\n") + 1]) < size


BYTES = st.lists(st.sampled_from([b"\n", b"{}", b" ", b"\r", b"\t", b"\0", b"\xff", b"\xc2\x85", b"x" * 50])).map(
    b"".join
)


@given(data=BYTES, ends=st.lists(st.integers(0, 300)), first=st.integers(1, 5))
@example(data=b"\n\n{}", ends=[], first=1)
@example(data=b"{}\n \n", ends=[2, 3], first=1)
def test_chunks_hold_every_line_once_however_the_bytes_come(data: bytes, ends: list[int], first: int) -> None:
    text = data.rstrip(b" \t\n\r\v\f")
    if not text:
        with pytest.raises(Refused, match="empty"):
            cut_at(data, ends)
        return
    chunks = cut_at(data, ends, first_lines=first)
    assert chunks == cut(data, first_lines=first) == unpack(pack(chunks))

    lines = [line for chunk in chunks for line in lines_of(data[chunk.offset : chunk.offset + chunk.length])]
    end = data.find(b"\n", len(text) - 1) + 1 or len(data)
    assert lines == lines_of(data[:end])
    offset = index = 0
    for number, chunk in enumerate(chunks):
        assert (chunk.offset, chunk.first_index) == (offset, index)
        assert chunk.lines == len(lines_of(data[chunk.offset : chunk.offset + chunk.length])) > 0
        assert all(holding(chunks, index + line) == number for line in range(chunk.lines))
        offset, index = chunk.offset + chunk.length, chunk.first_index + chunk.lines


@given(data=BYTES, ends=st.lists(st.integers(0, 300)), most=st.integers(1, 40))
@example(data=b"{}\n" * 3, ends=[], most=2)
def test_limits_hold_however_the_bytes_come(data: bytes, ends: list[int], most: int) -> None:
    if len(data) > most:
        with pytest.raises(TooLarge, match=f"{most} bytes"):
            cut_at(data, ends, max_bytes=most)
    if len(lines_of(data)) > most:
        with pytest.raises(TooLarge, match=f"{most} threads"):
            cut_at(data, ends, max_lines=most)


def lines_of(data: bytes) -> list[bytes]:
    """The lines of `data` with their ends. Only \\n ends a line."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]] + (
        [data.rpartition(b"\n")[2]] if data[-1:] != b"\n" and data else []
    )
