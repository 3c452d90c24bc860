import itertools
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import chunks
from storage.chunks import Chunk, Cutter, holding, pack, unpack
from storage.errors import Refused, TooLarge


def cut(*pieces: bytes, cutter: Cutter | None = None) -> list[Chunk]:
    cutter = cutter or Cutter()
    for piece in pieces:
        cutter.feed(piece)
    return cutter.finish()


def lines_of(payload: bytes, chunk: Chunk) -> list[bytes]:
    data = payload[chunk.offset : chunk.offset + chunk.length]
    return data.removesuffix(b"\n").split(b"\n")


def test_every_line_is_in_one_chunk() -> None:
    payload = b"".join(b'{"n": %d}\n' % number for number in range(2500))
    found = cut(payload)
    assert sum(chunk.lines for chunk in found) == 2500
    assert [chunk.first_index for chunk in found] == [0, *accumulate(chunk.lines for chunk in found)][:-1]
    assert [line for chunk in found for line in lines_of(payload, chunk)] == payload.splitlines()


def test_chunks_grow_with_the_batch_up_to_their_bound() -> None:
    few = [chunk.lines for chunk in cut(b"{}\n" * 800)]
    assert few == [200, 200, 200, 200]
    many = [chunk.lines for chunk in cut(b"{}\n" * 20_000)]
    assert many[:-1] == sorted(many[:-1])
    assert max(many) == 1000


@pytest.mark.parametrize(("line_ms", "first"), [(0.0, 200), (5.0, 200), (20.0, 100), (1000.0, 2), (60_000.0, 1)])
def test_lines_that_take_long_are_in_small_chunks(line_ms: float, first: int) -> None:
    found = [chunk.lines for chunk in cut(b"{}\n" * 20_000, cutter=Cutter(line_ms=line_ms))]
    assert found[0] == first
    assert max(found) == 1000
    assert sum(found) == 20_000
    assert len(found) < 250


def test_a_few_slow_lines_keep_two_workers_busy_to_the_end() -> None:
    found = [chunk.lines for chunk in cut(b"{}\n" * 24, cutter=Cutter(line_ms=1000.0))]
    assert found == [2] * 12


def test_the_last_line_may_lack_its_end() -> None:
    assert cut(b"{}\n{}") == [Chunk(0, 5, 0, 2)]


def test_crlf_is_a_line_end() -> None:
    assert cut(b"{}\r\n{}\r\n\r\n") == [Chunk(0, 8, 0, 2)]


def test_blank_lines_count_in_the_middle_and_not_at_the_end() -> None:
    assert cut(b"{}\n\n  \n{}\n \t\n\n  ") == [Chunk(0, 10, 0, 4)]


def test_blank_lines_at_the_end_take_whole_chunks_with_them() -> None:
    assert cut(b"{}\n" + b"\n" * 3000) == [Chunk(0, 3, 0, 1)]


@pytest.mark.parametrize("payload", [b"", b"\n", b" \r\n\t\n  "])
def test_no_line_at_all_is_refused(payload: bytes) -> None:
    with pytest.raises(Refused, match="empty"):
        cut(payload)


def test_a_chunk_ends_with_the_line_that_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 10)
    assert cut(b"1234\n12345678\n12\n") == [Chunk(0, 14, 0, 2), Chunk(14, 3, 2, 1)]


def test_a_line_that_is_too_long_is_named_before_it_ends() -> None:
    cutter = Cutter(line_bytes=8)
    cutter.feed(b"{}\n1234567\n12345")
    with pytest.raises(TooLarge, match="line 3 is longer than 8 bytes"):
        cutter.feed(b"6789")


def test_a_batch_has_at_most_so_many_lines_and_bytes() -> None:
    with pytest.raises(TooLarge, match="at most 2 threads"):
        cut(b"{}\n{}\n{}\n", cutter=Cutter(max_lines=2))
    with pytest.raises(TooLarge, match="at most 5 bytes"):
        cut(b"{}\n", b"{}\n", cutter=Cutter(max_bytes=5))


@given(st.lists(st.sampled_from([b"{}", b"\n", b" ", b"\r\n", b'{"a": 1}\n']), max_size=40), st.data())
def test_where_the_pieces_break_makes_no_difference(parts: list[bytes], data: st.DataObject) -> None:
    payload = b"x" + b"".join(parts)
    breaks = sorted(data.draw(st.lists(st.integers(0, len(payload)), max_size=6)))
    pieces = [payload[a:b] for a, b in zip([0, *breaks], [*breaks, len(payload)], strict=True)]
    found = cut(*pieces)
    assert found == cut(payload) == cut(*[bytes([byte]) for byte in payload])
    assert sum(chunk.lines for chunk in found) == payload.rstrip().count(b"\n") + 1


@given(
    st.lists(st.sampled_from([b"{}", b"\n", b"{}\n" * 7, b" ", b'{"a": 1}\n']), max_size=60),
    st.integers(1, 9),
    st.integers(4, 40),
)
def test_chunks_end_where_lines_or_bytes_are_enough(parts: list[bytes], lines: int, size: int) -> None:
    payload = b"x" + b"".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_BYTES", size)
        found = cut(payload, cutter=Cutter(first_lines=lines, chunk_lines=lines))
        bytewise = [bytes([byte]) for byte in payload]
        assert found == cut(*bytewise, cutter=Cutter(first_lines=lines, chunk_lines=lines))
    for chunk, following in itertools.pairwise(found):
        held = payload[chunk.offset : following.offset]
        assert held.count(b"\n") == chunk.lines <= lines
        assert chunk.lines == lines or len(held) >= size
        assert len(held[: held[:-1].rfind(b"\n") + 1]) < size


def test_the_table_reads_back() -> None:
    table = [Chunk(0, 100, 0, 10), Chunk(100, 50, 10, 5)]
    assert unpack(pack(table)) == table
    assert [holding(table, index) for index in (0, 9, 10, 14)] == [0, 0, 1, 1]
