"""Tests that the host reads the same id as a grader's process."""

import json
import timeit
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox.grading.thread_ids import read_group_size, read_id, read_ids
from sandbox.guest.child.read_thread import BadInput, ThreadReader
from sandbox.guest.child.thread_decoder import thread_decoder
from sandbox.limits import MAX_LINE_DEPTH

READER = ThreadReader(1 << 20, MAX_LINE_DEPTH, thread_decoder())
TEXTS = st.text() | st.sampled_from(["\ud83d", "\ude00", "\ud83d\ude00", "a\\ud83d", "\\", "\\\\u0069d"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
IDS = st.text(max_size=20) | st.integers(1 - 2**63, 2**63 - 1) | TEXTS | VALUES


@given(TEXTS, st.dictionaries(TEXTS, VALUES, max_size=3), IDS, st.booleans(), st.sampled_from(["", "\ufeff", " \t"]))
@example("\ud83d", {}, "\U0001f600", True, "")
@example("\\", {"\\\ud83d": 1}, "\\\U0001f600", True, "\ufeff ")
def test_what_a_process_reads_the_host_reads(
    text: str, metadata: dict[str, Any], identity: Any, is_escaped: bool, before: str
) -> None:
    thread = {"completion": text, "metadata": metadata, "id": identity}
    line = (before + json.dumps(thread, ensure_ascii=is_escaped) + "\r").encode("utf-8", "surrogatepass")
    try:
        READER.read(line)
    except BadInput:
        read_id(line)  # may find none, but must not raise
    else:
        expected = json.loads(line[len(before.encode()) :])["id"]
        assert read_id(line) == expected
        assert read_ids(b"\n".join([line, line]), 2) == [expected, expected]


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing(line: bytes) -> None:
    read_id(line)
    assert len(read_ids(line, line.count(b"\n") + 1)) == line.count(b"\n") + 1


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        (b'{"completion": 3, "id": "x"}', "x"),
        (b'{"id": 1, "metadata": {"id": 2}}', 1),
        (b'{"id": 1, "id": "last"}', "last"),
        (b'{"\\u0069d": "escaped", "completion": ""}', "escaped"),
        (b'{"id": "", "completion": ""}', ""),
        (b'{"id": null, "completion": ""}', None),
        (b'{"completion": ""}', None),
        (b'[{"id": 1}]', None),
        (b'{"id": 1', None),
        (b'{"id": [1]}', None),
        (b'{"id": true}', None),
        (b'{"id": 9223372036854775808}', None),
        (b'{"id": %s}' % (b"9" * 5000), None),
        (b'{"id": "%s"}' % (b"x" * 257), None),
        (b'{"id": "\\ud83d"}', None),
        (b'{"a": %s%s, "id": 1}' % (b"[" * 1_000_000, b"]" * 1_000_000), None),
        (b"\xff", None),
        (b"", None),
    ],
)
def test_an_id_of_a_line(line: bytes, identity: str | int | None) -> None:
    assert read_id(line) == identity
    assert read_ids(line + b"\n" + line, 2) == [identity, identity]


def test_as_many_as_there_are_lines() -> None:
    assert read_ids(b'{"id": 1}\n\n{"id": 3}\n', 3) == [1, None, 3]
    assert read_ids(b'{"a": 1}\n\n', 2) == [None, None]
    assert read_ids(b"", 0) == []


MEMBERS = st.lists(st.dictionaries(TEXTS, VALUES, max_size=2) | VALUES, max_size=5)


@given(MEMBERS, st.sampled_from(["threads", "completions"]), st.booleans(), st.sampled_from(["", "\ufeff", " \t"]))
@example([], "threads", True, "")
@example(["\ud83d", {"\ud83d": "\\"}], "completions", True, "\ufeff ")
def test_the_host_counts_the_threads_of_a_group(members: list[Any], name: str, is_escaped: bool, before: str) -> None:
    group = {"id": 1, name: members, "metadata": {"threads": [1, 2, 3]}}
    line = (before + json.dumps(group, ensure_ascii=is_escaped) + "\r").encode("utf-8", "surrogatepass")
    assert read_group_size(line) == len(members)


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b'{"threads":7}', b'{"threads":{"a":1}}', b'{"threads":[1,]}'])
def test_what_is_no_group_has_no_threads(line: bytes) -> None:
    assert read_group_size(line) == 0


@pytest.mark.parametrize(("members", "count"), [(1023, 1023), (1024, 1024), (1025, 1025), (1_000_000, 1025)])
def test_threads_that_no_group_may_have_are_not_held(members: int, count: int) -> None:
    line = b'{"completions":[' + b",".join([b'""'] * members) + b"]}"
    tracemalloc.start()
    try:
        assert read_group_size(line) == count
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_long_line_that_is_no_thread_is_not_searched_byte_by_byte() -> None:
    line = b'{"id":"%b"}' % (b"x" * 8_000_000)
    assert (
        min(timeit.repeat(lambda: read_id(line), number=1, repeat=5)) < 0.25
    )  # byte by byte, it takes more than a second
