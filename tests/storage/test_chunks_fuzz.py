"""Property tests of the line cutter, with bytes in pieces of any size."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gradebox.limits import LINE_BYTES
from storage.chunks import CHUNK_BYTES, CHUNK_LINES, Chunk, Cutter, holding, pack, unpack
from storage.errors import Refused, TooLarge

BYTES = st.lists(st.sampled_from([b"\n", b"{}", b" ", b"\r", b"\t", b"\0", b"\xff", b"\xc2\x85", b"x" * 50])).map(
    b"".join
)


def cut(data: bytes, ends: list[int], **limits: int) -> list[Chunk]:
    """The chunks of data that comes in pieces with these ends."""
    cutter = Cutter(**limits)
    start = 0
    for end in [*sorted(ends), len(data)]:
        cutter.feed(data[start:end])
        start = max(start, end)
    return cutter.finish()


@given(data=BYTES, ends=st.lists(st.integers(0, 300)), first=st.integers(1, 5))
@example(data=b"\n\n{}", ends=[], first=1)
@example(data=b"{}\n \n", ends=[2, 3], first=1)
def test_chunks_hold_every_line_once_however_the_bytes_come(data: bytes, ends: list[int], first: int) -> None:
    ends = [min(end, len(data)) for end in ends]
    text = data.rstrip(b" \t\n\r\v\f")
    if not text:
        with pytest.raises(Refused, match="empty"):
            cut(data, ends)
        return
    chunks = cut(data, ends, first_lines=first)
    assert chunks == cut(data, [], first_lines=first) == unpack(pack(chunks))

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
def test_limits_hold_however_the_bytes_come(data: bytes, ends: list[int], most: int) -> None:
    ends = [min(end, len(data)) for end in ends]
    if len(data) > most:
        with pytest.raises(TooLarge, match=f"{most} bytes"):
            cut(data, ends, max_bytes=most)
    if len(lines_of(data)) > most:
        with pytest.raises(TooLarge, match=f"{most} threads"):
            cut(data, ends, max_lines=most)


@given(lengths=st.lists(st.integers(0, CHUNK_BYTES), min_size=1, max_size=6), piece=st.integers(5000, CHUNK_BYTES))
def test_chunks_of_long_lines_end_with_the_line_that_fills_them(lengths: list[int], piece: int) -> None:
    data = b"".join(b"x" * length + b"\n" for length in lengths)
    if not data.strip():
        return
    chunks = cut(data, list(range(piece, len(data), piece)))
    for chunk in chunks[:-1]:
        lines = lines_of(data[chunk.offset : chunk.offset + chunk.length])
        assert len(lines) <= CHUNK_LINES
        assert chunk.length >= CHUNK_BYTES > chunk.length - len(lines[-1])


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_line_over_its_limit_is_refused_before_it_has_come(pieces: int) -> None:
    cutter = Cutter()
    cutter.feed(b"{}\n")
    with pytest.raises(TooLarge, match="line 2"):
        for _ in range(pieces):
            cutter.feed(b"x" * (LINE_BYTES // pieces + 1))


def lines_of(data: bytes) -> list[bytes]:
    """The lines of `data` with their ends. Only \\n ends a line."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]] + (
        [data.rpartition(b"\n")[2]] if data[-1:] != b"\n" and data else []
    )
