"""Tests that lines are read exactly as by `json.loads` and `StringThread.from_object`."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradebox.thread import StringThread
from gradebox.thread_forms import ROLES
from sandbox import limits
from sandbox.grading.thread_ids import read_id
from sandbox.guest.child.read_thread import BadInput, ThreadReader
from sandbox.guest.child.thread_decoder import ThreadDecoder, UsualThread, thread_decoder

DEEPEST = limits.MAX_LINE_DEPTH
DECODER = thread_decoder()


def _decode_nothing(line: bytes) -> UsualThread:
    raise BadInput


NO_DECODER = ThreadDecoder(_decode_nothing, (BadInput,))
SLOW = ThreadReader(4096, DEEPEST, NO_DECODER)
READER = ThreadReader(4096, DEEPEST, DECODER)
LONG = (ThreadReader(1 << 20, DEEPEST, DECODER), ThreadReader(1 << 20, DEEPEST, NO_DECODER))

texts = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
roles = st.sampled_from([*ROLES, "Assistant", ""])
parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "refusal", "image_url", "x"])}, optional={"text": texts}
)
contents = texts | st.none() | st.lists(texts | parts, max_size=2)
plain_message: st.SearchStrategy[Any] = st.fixed_dictionaries({"role": roles, "content": texts})
more_members: dict[str, st.SearchStrategy[Any]] = {"content": contents, "tool_calls": values, "name": texts}
messages = st.lists(plain_message | st.fixed_dictionaries({"role": roles}, optional=more_members), max_size=3)
pairs = st.lists(st.tuples(roles, texts), max_size=3)
metadata = st.fixed_dictionaries({}, optional={"metadata": st.none() | st.dictionaries(texts, values, max_size=3)})
forms = (
    st.fixed_dictionaries({"messages": messages | values})
    | st.fixed_dictionaries({"turns": pairs | values})
    | st.fixed_dictionaries({"completion": texts | messages | values}, optional={"prompt": texts | messages | values})
)
unknown = st.fixed_dictionaries({}, optional={"id": st.integers() | texts, "answer": values, "completion": texts})
threads = st.builds(lambda form, more, other: {**form, **more, **other}, forms, metadata, unknown)


def _depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max((_depth(member) for member in (value.values() if isinstance(value, dict) else value)), default=0)


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _expected(text: str) -> StringThread | None:
    try:
        value = json.loads(text, parse_constant=_refuse)
        thread = StringThread.from_object(value)
        str(value.get("id", "")).encode()  # raises on half a surrogate pair
    except ValueError:
        return None
    if type(value.get("id")) is int and abs(value["id"]) >= 1 << 63:
        return None
    deepest = max(map(_depth, (thread.metadata, *thread.raw_messages())))
    return thread if 1 + deepest <= DEEPEST else None


def _read(line: bytes, readers: tuple[ThreadReader, ThreadReader] = (READER, SLOW)) -> StringThread | None:
    """The thread that both readers return; None if they refuse it."""
    fast, slow = (_told(reader, line) for reader in readers)
    assert repr(fast) == repr(slow)
    return fast if type(fast) is StringThread else None


def _told(reader: ThreadReader, line: bytes) -> StringThread | str:
    try:
        return reader.read(line)
    except BadInput as problem:
        return str(problem)


BEFORE = ["\ufeff", " \t\r\n", "\ufeff  "]


@given(
    st.sampled_from(["", *BEFORE, "\x0b"]),
    threads | values,
    st.sampled_from(["", "\n", "\r\n", " \t\r\n", "x", "{}", ",", "\x00", "\x0b", "\u00a0"]),
)
def test_reads_what_json_reads(before: str, value: Any, behind: str) -> None:
    """A byte order mark may precede the line, which `json.loads` refuses in a string."""
    text = json.dumps(value, ensure_ascii=False) + behind
    assert _read((before + text).encode()) == _expected(before.removeprefix("\ufeff") + text)


@given(threads, st.data())
def test_reads_what_json_reads_of_a_broken_line(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    position = data.draw(st.integers(0, len(text) - 1))
    broken = text[:position] + data.draw(st.sampled_from(["", '"', "{", "]", "\\", "1", "\n"])) + text[position + 1 :]
    assert _read(broken.encode()) == _expected(broken)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_thread_or_bad_input(line: bytes) -> None:
    thread = _read(line)
    assert thread is None or type(thread) is StringThread


TURNS = [("user", "q"), ("assistant", "a")]
FORMS: dict[str, dict[str, object]] = {
    "messages": {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]},
    "turns": {"turns": [["user", "q"], ["assistant", "a"]]},
    "prompt and completion": {"prompt": "q", "completion": "a"},
    "prompt and completion as messages": {
        "prompt": [{"role": "user", "content": "q"}],
        "completion": [{"role": "assistant", "content": "a"}],
    },
}


MORE: list[dict[str, object]] = [{"metadata": None}, {"metadata": {}}, {"id": 7}, {"id": "x", "metadata": {}}]


@pytest.mark.parametrize(
    ("form", "before", "behind", "more"),
    [
        *((form, "", "", {}) for form in FORMS),
        *(("messages", before, "", {}) for before in BEFORE),
        *(("messages", "", behind, {}) for behind in ("\n", "\r\n", "  \r")),
        *(("messages", "", "", more) for more in MORE),
    ],
)
def test_all_forms_come_to_the_same(form: str, before: str, behind: str, more: dict[str, object]) -> None:
    thread = READER.read((before + json.dumps({**FORMS[form], **more}) + behind).encode())
    assert thread == StringThread(TURNS)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "the line is blank"),
        (b" \t\r\n", "the line is blank"),
        ("\ufeff\n".encode(), "the line is blank"),
        (b'{"completion": "\xff"}', "not UTF-8: byte 0xff at position 16"),
        (b'{"messages": [], "metadata": {}} {}', "something follows the value at position 32"),
        (b'{"messages": [], "metadata": {}}x', "something follows the value"),
        (b'{"completion": "a"}]', "something follows the value at position 19"),
        (b'{"completion": "a"', "the line is not JSON: Expecting ',' delimiter at position 18, where it ends"),
        (b"no thread", "the line is not JSON: Expecting value at position 0, where it has 'no thread'"),
        (b'{"completion": }', "the line is not JSON: Expecting value at position 15, where it has '}'"),
        (b'{"completion": "a\tb"}', "the line is not JSON: Invalid control character at position 17"),
        (b"[]", "a thread is a JSON object, and this is a list"),
        (b"null", "this is null"),
        (b"{}", 'needs "messages", "turns" or "completion"'),
        (b'{"messages": {}, "metadata": {}}', '"messages" must be a list'),
        (
            b'{"messages": [{"role": "user", "content": 1}], "metadata": {}}',
            '"content" must be a string or a list of parts, and is a number',
        ),
        (b'{"messages": [{"role": "user"}]}', '"messages"[0]: "content" is missing or null, which only'),
        (b'{"messages": ["a"]}', '"messages"[0] must be an object with "role" and "content"'),
        (b'{"messages": [], "metadata": {}, "answer": 1}', "or --column messages=messages in the shell"),
        (b'{"completion": "4", "answer": "4"}', "or --column completion=completion in the shell"),
        (b'{"completion": ["4"], "metadata": {}}', '"completion"[0] is text: send one completion as "completion": "…"'),
        (b'{"messages": [], "completion": "4", "metadata": {}}', 'this has "messages" beside "completion"'),
        (b'{"messages": [], "prompt": "4", "metadata": {}}', 'this has "messages" beside "prompt"'),
        (b'{"turns": [], "completion": "4"}', 'this has "turns" beside "completion"'),
        (b'{"messages": [{"role": "Assistant", "content": ""}], "metadata": {}}', "unknown: write 'assistant'"),
        (b'{"messages": [{"role": "gpt", "content": ""}], "metadata": {}}', "'gpt' is unknown: write 'assistant'"),
        (b'{"turns": [["human", ""]]}', "'human' is unknown: write 'user'"),
        (b'{"turns": [["x", ""]]}', "'x' is unknown: roles are assistant, developer"),
        (b'{"turns": [["user"]]}', '"turns"[0] must be a pair'),
        (
            b'{"turns": [{"role": "user", "content": "q"}]}',
            '[role, content]; messages with "role" and "content" belong in "messages"',
        ),
        (b'{"messages": [], "metadata": []}', '"metadata" must be an object, and is a list'),
        (b'{"completion": "%s"}' % (b"a" * 4096), "has 4114 bytes, and a thread may have 4096"),
        (b'{"messages": [], "metadata": {"a": "%s"}}' % (b"a" * 4096), "and a thread may have 4096"),
        (b'{"completion": "a", "metadata": {"a": NAN}}', "the line is not JSON"),
        (b'{"completion": "a", "metadata": {"a": NaN}}', "NaN is no JSON"),
        (b'{"messages": [], "metadata": {"a": -Infinity}}', "-Infinity is no JSON"),
    ],
)
def test_a_line_that_is_no_thread(line: bytes, message: str) -> None:
    with pytest.raises(BadInput) as raised:
        READER.read(line)
    assert message in str(raised.value)


@pytest.mark.parametrize("reader", LONG)
def test_a_line_that_is_nested_without_end_is_no_thread(reader: ThreadReader) -> None:
    with pytest.raises(BadInput, match=f"nested more than {DEEPEST} levels deep"):
        reader.read(b"[" * 1_000_000)


@pytest.mark.parametrize("form", [{"messages": []}, {"turns": []}])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("inmost", ["1", "[]", "{}", '"a"'])
def test_metadata_may_be_so_deep_and_no_deeper(
    form: dict[str, object], opening: str, closing: str, inmost: str
) -> None:
    def line(levels: int) -> bytes:
        more = levels - 2 - (inmost in ("[]", "{}"))  # the thread and its metadata are two of the levels
        nested = opening * more + inmost + closing * more
        return (json.dumps(form)[:-1] + ', "metadata": {"a": ' + nested + "}}").encode()

    assert _read(line(DEEPEST)) is not None
    assert all(_read(line(levels)) is not None for levels in range(4, 20))
    with pytest.raises(DECODER.errors):
        DECODER.decode(line(limits.MIN_LINE_DEPTH + 1))  # so the reader need not check the depth of a decoded thread
    with pytest.raises(BadInput, match=f"nested more than {DEEPEST} levels deep"):
        READER.read(line(DEEPEST + 1))


@pytest.mark.parametrize("identity", ["", "x" * 256, "é", 0, -1, 2**63 - 1, -(2**63) + 1])
def test_an_id_is_no_part_of_the_thread(identity: str | int) -> None:
    forms: list[dict[str, object]] = [{"messages": [], "metadata": {}}, {"completion": "a"}]
    for form in forms:
        line = json.dumps({**form, "id": identity}).encode()
        assert READER.read(line) == StringThread.from_object(form)
        assert read_id(line) == identity


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        # No outcome can hold half a pair, and a replacement could be the id of another thread.
        *((half, "half a surrogate pair") for half in ("\ud800", "\ude00x", "x" * 255 + "\ud83d")),
        *zip(("x" * 257, 2**63, -(2**63), 1.0, True, [], {}), ['"id" must be'] * 7, strict=True),
    ],
)
@pytest.mark.parametrize("form", [{"messages": [], "metadata": {}}, {"completion": "a"}])
def test_an_id_that_no_outcome_can_have_is_refused(identity: object, form: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        READER.read(json.dumps({**form, "id": identity}).encode())


@pytest.mark.parametrize("form", [b'"messages": []', b'"completion": "a"'])
def test_numbers_that_are_too_large_for_a_float(form: bytes) -> None:
    line = b"{%s" % form + b', "metadata": {"a": 1e999, "b": -1e999}}'
    read = READER.read(line).metadata
    assert (read["a"], read["b"]) == (math.inf, -math.inf)


def test_a_reader_keeps_nothing_of_a_line() -> None:
    line = b'{"messages": [{"role": "user", "content": "q"}], "metadata": {"a": [1]}}'
    READER.read(line).metadata["a"].append(2)
    assert READER.read(line).metadata == {"a": [1]}


NUMBERS = st.from_regex(r"-?[0-9]{1,30}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
ESCAPES = st.sampled_from([r"\n", r"\/", r"\u0041", r"\ud83d\ude00", r"\ud83d", r"\udc00", r"\x", r"\u12"])
CHARACTERS = st.sampled_from(["a", "é", "😀", "\x00", "\x1f", "\x7f", "\u2028"]) | ESCAPES
ODD = st.sampled_from(
    ["NaN", "-Infinity", "-NaN", "nan", "01", "1.", ".5", "+1", "-", "1e", "0x1", "1_0", "tru", "", "9" * 5000]
)


@settings(max_examples=200)
@given(st.lists(NUMBERS | st.lists(CHARACTERS, max_size=4).map(lambda c: f'"{"".join(c)}"') | ODD, max_size=3))
def test_numbers_and_strings_as_they_may_be_written(written: list[str]) -> None:
    """Numbers agree to the last bit, and the same duplicate key wins, in the same place."""
    members = ", ".join(f'"{key}": {text}' for key, text in zip("aba", written, strict=False))
    _read(f'{{"messages": [], "metadata": {{{members}}}}}'.encode(), LONG)


@pytest.mark.parametrize(
    "line",
    [
        b'{"messages": [], "metadata": {"a": 1}, "metadata": {"a": 2}}',
        b'{"id": 1, "messages": [], "metadata": {}, "id": 2}',
        b'{"messages": [{"role": "user", "content": "a", "content": "b"}], "metadata": {}}',
        b'{"messages": [{"role": "user", "role": "tool", "content": "a"}], "metadata": {}}',
        b'{"messages": [{"role": "Ai", "role": "tool", "content": "a"}], "metadata": {}}',
        b'{"messages": 1, "messages": [], "metadata": {}}',
        b'{"m\\u0065ssages": [], "metadata": {"\\u0061": "\\u00e9"}}',
        b'{"messages": [], "metadata": {"\xff": 1}}',
        b'{"messages": [], "metadata": {"a": ["\xc3\xa9", "\xc3"]}}',
        b'{"messages": [], "metadata": {"a": -0, "b": -0.0, "c": 1E400, "d": 18446744073709551616}}',
    ],
)
def test_what_is_unusual_is_read_as_json_reads_it(line: bytes) -> None:
    _read(line, LONG)


def test_usual_threads_are_read_by_the_decoder_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow reader has the same result, in twice the time."""
    thread = {"messages": [{"role": role, "content": "é"} for role in sorted(ROLES)], "metadata": {"a": [{"b": [1]}]}}
    monkeypatch.setattr(ThreadReader, "read_value", None)
    for identity in ({}, {"id": "x"}, {"id": 7}, {"id": None}):
        assert READER.read(json.dumps({**thread, **identity}).encode()).metadata == {"a": [{"b": [1]}]}


def test_what_interrupts_the_decoder_is_passed_on() -> None:
    def decode(line: bytes) -> UsualThread:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ThreadReader(4096, DEEPEST, ThreadDecoder(decode, DECODER.errors)).read(b"{}")
