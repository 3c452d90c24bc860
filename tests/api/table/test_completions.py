import json
from time import thread_time
from typing import Any

import pytest

from api.table.completions import completion, completions

SAYS = {"role": "assistant", "content": "yes"}
PARTS = {"role": "assistant", "content": [{"type": "text", "text": "ye"}, {"type": "text", "text": "s"}]}


@pytest.mark.parametrize(
    ("thread", "said"),
    [
        ({"messages": [{"role": "user", "content": "?"}, SAYS]}, "yes"),
        ({"messages": [SAYS, {"role": "user", "content": "?"}]}, None),
        ({"messages": [PARTS]}, "yes"),
        ({"messages": []}, None),
        ({"turns": [["user", "?"], ["assistant", "yes"]], "metadata": {"a": 1}}, "yes"),
        ({"prompt": "?", "completion": "yes", "id": 1}, "yes"),
        ({"prompt": [{"role": "user", "content": "?"}], "completion": [SAYS]}, "yes"),
        ({"completion": "a \ud800 half"}, "a \ud800 half"),
        ({"messages": [SAYS], "turns": []}, None),
        ({"messages": "no list"}, None),
        ({}, None),
        ([1], None),
        ({"threads": [{"completion": "yes"}]}, None),
    ],
)
def test_the_completion_of_a_thread(thread: Any, said: str | None) -> None:
    assert completion(json.dumps(thread).encode()) == said


def test_the_completions_of_a_group() -> None:
    line = b'{"prompt": "?", "completions": ["yes", "no", [{"role": "user", "content": "?"}]]}'
    assert completions(line) == ["yes", "no"]
    assert completions(b'{"completion": "yes"}') == ["yes"]


def test_the_completion_of_a_thread_with_many_numbers_that_take_long_to_read() -> None:
    line = b'{"completion":"4","metadata":[%b0]}' % (b"5e-324," * 12_000)
    began = thread_time()
    assert completion(line) == "4"
    assert thread_time() - began < 0.05  # of a processor, while no other request of the API is handled


@pytest.mark.parametrize("line", [b"", b"no JSON", b"[" * 200_000, b"\xff", b'{"threads": []}', b'{"completions": 1}'])
def test_what_is_no_thread_has_none(line: bytes) -> None:
    assert completion(line) is None
    assert completions(line) == []
