import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.surrogates import hide, restore

PIECES = [r"\ud83d", r"\uDE00", r"\ud83d\ude00", r"\ue000", r"\uE001", "\\\\", "x", "\\\\ud83d", "é"]


@given(st.lists(st.sampled_from(PIECES)))
def test_what_is_hidden_reads_and_comes_back_byte_for_byte(pieces: list[str]) -> None:
    body = f'["{"".join(pieces)}"]'.encode()
    masked, hidden = hide(body)
    (part,) = msgspec.json.decode(masked, type=list[msgspec.Raw])
    assert restore(bytes(part), hidden) == body[1:-1]


@pytest.mark.parametrize("body", [b"", b"{}", rb'"\u0041"'])
def test_nothing_is_hidden_where_there_is_nothing(body: bytes) -> None:
    assert hide(body) == (body, {})
