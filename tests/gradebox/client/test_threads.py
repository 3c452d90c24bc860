import gzip
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebox.client.thread_line import Thread, to_line
from gradebox.client.threads import Pieces, ScoreLimits, Threads, blocks, length
from gradebox.limits import REQUEST_THREADS
from gradebox.thread import StringThread


def pieces(threads: Threads) -> Pieces:
    return Pieces(threads, ScoreLimits())


class Fruit(Enum):
    APPLE = 4


class Name(StrEnum):
    APPLE = "apple"


def test_a_thread_goes_out_as_its_messages_and_metadata() -> None:
    thread = StringThread([("user", "2+2?"), ("assistant", "4")], {"answer": 4})

    assert json.loads(to_line(thread, 0)) == {
        "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}],
        "metadata": {"answer": 4},
    }


@pytest.mark.parametrize("said", ["hello", "\ud83d oops"], ids=["text", "half an emoji"])
def test_a_list_of_pairs_is_a_thread_too(said: str) -> None:
    line = to_line([("user", "hi"), ("assistant", said)], 0)
    assert StringThread.from_json(line).completion() == said


def test_a_dict_that_is_nearly_a_thread_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match=r"thread 3 is no thread: .*role 'gpt' is unknown: write 'assistant'"):
        to_line({"messages": [{"role": "gpt", "content": "4"}]}, 3)
    for messages in ({"role": "user", "content": "4"}, [{"role": "user", "content": "4"}]):
        with pytest.raises(ValueError, match=r"this is one message, and a thread has all of them: \{\"messages\": \["):
            to_line(messages, 0)
    with pytest.raises(ValueError, match=r"thread 3 is no thread: .*one form"):
        to_line({"messages": [], "completion": "4"}, 3)
    with pytest.raises(ValueError, match="a turn: the role 'User' is unknown: write 'user'"):
        to_line([("User", "hi")], 3)


def test_members_that_no_form_has_are_the_services_to_refuse() -> None:
    assert json.loads(to_line({"completion": "4", "answer": "4"}, 0)) == {"completion": "4", "answer": "4"}


def test_messages_keep_all_of_their_members() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "f"}}]}
    assert json.loads(to_line(StringThread.from_messages([call]), 0))["messages"] == [call]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused_and_the_thread_is_named(value: float) -> None:
    with pytest.raises(ValueError, match="thread 7 cannot be sent"):
        to_line(StringThread([], {"reward": value}), 7)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts) | st.tuples(parts, parts),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), _JSON, max_size=4))
def test_what_goes_out_is_what_json_makes_of_it(metadata: dict[str, object]) -> None:
    found, expected = (
        json.loads(to_line({"completion": "4", "metadata": metadata}, 0))["metadata"],
        json.loads(json.dumps(metadata)),
    )
    assert repr(found) == repr(expected)  # repr distinguishes 1, 1.0 and True, and 0.0 and -0.0


@pytest.mark.parametrize(
    "value", [object(), date(2026, 1, 1), Decimal(4), b"4", {4}, UUID(int=4), Fruit.APPLE, [date(2026, 1, 1)]]
)
def test_what_json_cannot_say_is_refused_also_if_some_encoders_can_write_it(value: object) -> None:
    threads: list[Thread] = [{"completion": "4", "metadata": {"answer": value}}, StringThread([], {"answer": value})]
    for thread in threads:
        with pytest.raises(TypeError, match=r"thread 7 .* not JSON serializable; threads hold strings"):
            to_line(thread, 7)


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({1: "a", "1": "b"}, "the key 1 of a dict is of type int, not text: write '1'"),
        ({True: "a"}, "the key True of a dict is of type bool, not text: write 'True'"),
        ({"votes": [{"a": 1, 2.5: 3}]}, "the key 2.5 of a dict is of type float, not text: write '2.5'"),
        ({None: "a"}, "the key None of a dict is of type NoneType, not text: write 'None'"),
        ({date(2026, 1, 1): "a"}, "write '2026-01-01'"),
    ],
)
def test_keys_that_are_no_text_are_refused(metadata: Any, told: str) -> None:
    """JSON would make them text, under which `thread.metadata[1]` finds nothing, and {1: …, "1": …} loses a member."""
    with pytest.raises(TypeError) as raised:
        to_line(StringThread([("assistant", "4")], metadata), 7)
    assert "thread 7 cannot be sent as JSON: " in str(raised.value) and told in str(raised.value)


def test_keys_may_be_text_of_another_class() -> None:
    line = to_line({"completion": "4", "metadata": {Name.APPLE: "a"}}, 0)
    assert json.loads(line)["metadata"] == {"apple": "a"}


def test_a_circle_is_refused() -> None:
    circle: dict[str, object] = {}
    circle["self"] = circle
    with pytest.raises(ValueError, match="thread 0"):
        to_line(circle, 0)
    with pytest.raises(ValueError, match="thread 0 cannot be sent as JSON: Circular reference detected"):
        to_line(StringThread([], circle), 0)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"completion": "4", "id": 1.5}, '"id" must be a string .* and is 1.5'),
        ({"completion": "4", "id": True}, '"id" must be a string .* and is True'),
        ({"completion": "4", "id": "x" * 257}, '"id" must be a string of at most 256'),
        ({"completion": "4", "id": 1 << 63}, '"id" must be a string .* 64 bits'),
        ({"threads": [{"completion": "4"}], "id": 1.5}, '"id" must be a string'),
        (StringThread([("assistant", "4")], metadata="x"), "its metadata must be a dict, and is 'x'"),
        ([], "it is an empty list, and a thread is a StringThread, a dict"),
        ({"question": "2+2?", "answer": "4"}, "has question, answer: .* columns="),
        ({}, "has no member"),
    ],
)
def test_what_the_service_would_refuse_is_not_sent(value: Thread, said: str) -> None:
    with pytest.raises(ValueError, match=f"thread 2 is no thread: .*{said}"):
        to_line(value, 2)


@pytest.mark.parametrize("own", [None, "x" * 256, (1 << 63) - 1, 1 - (1 << 63)])
def test_ids_that_the_service_takes_are_sent(own: object) -> None:
    assert json.loads(to_line({"completion": "4", "id": own}, 0))["id"] == own


@pytest.mark.parametrize("value", ["a string", 3, [("user", "a", "b")], ["ab"], [("user", 1)]])
def test_what_is_no_thread_is_refused(value: Thread) -> None:
    with pytest.raises(TypeError, match="thread 0"):
        to_line(value, 0)


class Text(str):
    """A subclass of str whose text is another, as that of an Enum is."""

    def __str__(self) -> str:
        return "another"


@pytest.mark.parametrize("text", [numpy.str_("4"), Text("4")])
def test_texts_of_a_subclass_of_str_are_texts(text: str) -> None:
    user, role, part = type(text)("user"), type(text)("assistant"), {"type": type(text)("text"), "text": text}
    threads: list[Thread] = [
        {"prompt": text, "completion": text},
        {"messages": [{"role": user, "content": text}, {"role": role, "content": [part, text]}]},
        {"turns": [[user, text], [role, text]]},
        [(user, text), (role, text)],
        StringThread([(user, text), (role, text)]),
    ]
    for thread in threads:
        read = StringThread.from_json(to_line(thread, 0))
        assert [role for role, _ in read.get_turns()] == ["user", "assistant"]
        assert set(read.completion() or "") == {"4"}
    with pytest.raises(TypeError, match=r"one thread as a list of \(role, content\)"):
        list(blocks([(user, text)]))  # type: ignore[list-item]  # tested here


@pytest.mark.parametrize(
    ("completion", "said"),
    [(numpy.array(["4"]), "of the type ndarray"), (("4",), "of the type tuple"), (4, "a number"), (True, "a boolean")],
)
def test_what_is_no_text_is_called_by_its_type(completion: object, said: str) -> None:
    with pytest.raises(ValueError, match=f'"completion" must be text or a list of messages, and is {said}'):
        to_line({"completion": completion}, 0)


def test_threads_become_lines_in_blocks() -> None:
    threads = [{"completion": "x" * 1000, "id": number} for number in range(1000)]

    made = list(blocks(threads))

    assert len(made) == 4
    assert [json.loads(line)["id"] for line in b"".join(made).splitlines()] == list(range(1000))


def test_threads_are_taken_from_a_generator_as_they_are_needed() -> None:
    taken = 0

    def generate() -> Iterator[Thread]:
        nonlocal taken
        for _ in range(10_000):
            taken += 1
            yield {"completion": "x" * 1000}

    next(iter(blocks(generate())))

    assert taken < 300


def test_a_file_goes_out_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "threads.jsonl"
    path.write_bytes(b'{"completion": "4"}\r\nnot json\n\xff\n')

    assert b"".join(blocks(path)) == path.read_bytes()
    assert b"".join(blocks(str(path))) == path.read_bytes()
    with path.open("rb") as file:
        assert b"".join(blocks(file)) == path.read_bytes()


def test_the_length_of_a_regular_file_is_known(tmp_path: Path) -> None:
    path, pipe = tmp_path / "threads.jsonl", tmp_path / "pipe"
    path.write_bytes(b"{}\n")
    os.mkfifo(pipe)

    assert (length(path), length(str(path))) == (3, 3)
    assert length(pipe) is None
    assert length([{"completion": "4"}]) is None
    with path.open("rb") as file:
        assert length(file) is None


@pytest.mark.parametrize("there", [b"", b'{"completion": "4"}\n' * 30_000, b'{"completion": "4"}', b"{}\n{}"])
@pytest.mark.parametrize("more", [b"", b"\n", b"\r\n{}", b'\n{"completion": "5"}\n'])
def test_of_a_file_that_grows_what_was_there_goes_out(tmp_path: Path, there: bytes, more: bytes) -> None:
    path = tmp_path / "threads.jsonl"
    path.write_bytes(there)
    size = length(path)
    path.write_bytes(there + more)

    assert b"".join(blocks(path, size)) == there


@pytest.mark.parametrize("before", [0, 3, 30_000])
def test_a_line_that_another_process_completes_meanwhile_is_not_sent_in_part(tmp_path: Path, before: int) -> None:
    path = tmp_path / "threads.jsonl"
    path.write_bytes(b'{"completion": "4"}\n' * before + b'{"completion": "hello')
    size = length(path)
    with path.open("ab") as file:
        file.write(b' world"}\n')

    sent = list[bytes]()
    with pytest.raises(
        ValueError, match=f"{path} ended in the middle of a line .*, after {size:,} bytes, .* wait until"
    ):
        sent.extend(blocks(path, size))
    assert len(b"".join(sent)) < (size or 0)  # the service, which got less than it was told of, creates no batch


def test_a_file_that_becomes_shorter_is_named(tmp_path: Path) -> None:
    path = tmp_path / "threads.jsonl"
    path.write_bytes(b"{}\n" * 500_000)
    sent = blocks(path, length(path))
    next(sent)
    os.truncate(path, 1_000_000)

    with pytest.raises(ValueError, match=f"{path} became shorter .* from 1,500,000 to 1,000,000 bytes, .* pass a copy"):
        list(sent)


def test_a_file_opened_as_text_is_refused() -> None:
    with pytest.raises(TypeError, match="rb"):
        list(blocks(io.StringIO("{}")))  # type: ignore[arg-type]  # tested here


@pytest.mark.parametrize(
    ("characters", "number", "cut"),
    [(0, 2 * REQUEST_THREADS + 1, [(0, 1000), (1000, 1000), (2000, 1)]), (4_000_000, 5, [(0, 3), (3, 2)])],
)
def test_threads_are_cut_into_requests_by_their_number_and_size(
    characters: int, number: int, cut: list[tuple[int, int]]
) -> None:
    threads: Iterator[Thread] = ({"completion": "x" * characters} for _ in range(number))
    assert [(first, len(lines)) for first, lines in pieces(threads)] == cut


ANSWERED = {"messages": [{"role": "assistant", "content": "4"}]}
UNANSWERED = {"messages": [{"role": "assistant", "content": "4"}, {"role": "user", "content": "q"}]}


@pytest.mark.parametrize("send", [lambda threads: list(pieces(threads)), lambda threads: list(blocks(threads))])
@pytest.mark.parametrize(
    ("threads", "said"),
    [
        ([ANSWERED, [("assistant", "4")], StringThread([("assistant", "4")]), {"completion": "4"}], []),
        ([ANSWERED, UNANSWERED, [("user", "q")], StringThread()], ["3 of 4 threads do not", "first is thread 1"]),
    ],
)
def test_threads_without_a_completion_are_told_of(
    send: Callable[[list[Thread]], object], threads: list[Thread], said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    send(threads)

    assert all(part in caplog.text for part in said)
    assert len(caplog.records) == bool(said)


def test_the_first_threads_of_a_file_are_looked_at(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "threads.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in [ANSWERED, UNANSWERED, 7, []]) + "no JSON\n" * 200)

    assert b"".join(blocks(file)) == file.read_bytes()
    assert "1 of the first 100 lines do not end with a turn of the assistant" in caplog.text


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (gzip.compress(b"{}", mtime=0), "compressed by gzip: write JSON, one thread a line, as UTF-8 (gunzip FILE)"),
        ('{"completion": ""}'.encode("utf-16"), "UTF-16: write JSON, one thread a line"),
        (b'[\n{"completion": ""}]', "one JSON array: write JSON, one thread a line, as UTF-8 (jq -c '.[]' FILE)"),
        (
            b'{\r\n  "completion": ""\r\n}',
            "JSON over several lines: write JSON, one thread a line, as UTF-8 (jq -c . FILE)",
        ),
        (b"PK\x03\x04\x14\x00", "a zip archive, or a workbook of Excel: write JSON, one thread a line"),
    ],
)
def test_a_file_of_another_kind_is_refused(start: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"the file of threads is {said}")):
        list(blocks(io.BytesIO(start)))


@pytest.mark.parametrize(
    ("threads", "said"),
    [
        ("few.jsonl", "is a file"),
        (Path("few.jsonl"), "is a file"),
        (ANSWERED, "one dict"),
        (StringThread(), "one StringThread"),
        ([("user", "2+2?"), ("assistant", "4")], r"one thread as a list of \(role, content\).* a StringThread, a dict"),
        (None, "None is no list of threads. In the list, a thread is a StringThread, a dict"),
        (5, "5 is no list of threads"),
    ],
)
def test_what_is_no_list_of_threads_says_so(threads: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        list(pieces(threads))


def test_a_frame_is_no_list_of_threads() -> None:
    import pandas  # here, because each test process would import it to collect the tests

    frame = pandas.DataFrame([{"question": "2+2?", "answer": "4"}])
    test_what_is_no_list_of_threads_says_so(frame, "a DataFrame needs columns=.* has the columns question, answer")
