"""Tests that rows of a dataset become threads."""

import io
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from gradebox.client import dataset_rows
from gradebox.client.dataset_rows import with_columns
from gradebox.client.threads import Pieces, Resend, ScoreLimits, Threads, blocks
from gradebox.rewards import trl

ROW = {"question": "2+2?", "response": "4", "answer": "4", "id": "s1"}
COLUMNS = {"question": "prompt", "response": "completion"}
SAYS, C = {"said": "completion"}, {"completion": "c"}
SAID = {"role": "assistant", "content": "4"}
THREAD = {"prompt": "2+2?", "completion": "4", "id": "s1", "metadata": {"answer": "4"}}


def sent(threads: Threads, columns: dict[str, str] | None) -> list[Any]:
    return [json.loads(line) for line in b"".join(blocks(with_columns(threads, columns))).splitlines()]


def as_path(folder: Path) -> Path:
    (folder / "rows.jsonl").write_text(f"{json.dumps(ROW)}\n{json.dumps(ROW)}\n\n")
    return folder / "rows.jsonl"


@pytest.mark.parametrize(
    "make",
    [
        lambda _: [ROW, ROW],
        lambda _: (row for row in [ROW, ROW]),
        as_path,
        lambda folder: io.BytesIO(as_path(folder).read_bytes()),
    ],
    ids=["list", "generator", "path", "open file"],
)
def test_columns_are_what_they_are_called_and_others_are_metadata(
    make: Callable[[Path], Threads], tmp_path: Path
) -> None:
    assert sent(make(tmp_path), COLUMNS) == [THREAD, THREAD]


@pytest.mark.parametrize(
    ("row", "columns", "is_told"),
    [
        (ROW, {"response": "completion"}, True),
        (ROW, COLUMNS, False),
        ({"prompt": "2+2?", "response": "4"}, {"response": "completion"}, False),
        ({"completion": "4", "question": "2+2?"}, {}, False),
    ],
)
def test_a_completion_without_its_prompt_is_told_once(
    row: dict[str, Any], columns: dict[str, str], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    dataset_rows._log_no_prompt.cache_clear()
    sent([row, row], columns)
    sent([row, row], columns)
    assert len(caplog.messages) == is_told
    assert all("is the prompt" in text and text.endswith("metadata: question, answer") for text in caplog.messages)


def test_what_can_be_read_again_is_sent_again_whole() -> None:
    rows = with_columns([ROW], COLUMNS)
    assert Resend(rows).possible
    assert Resend({"a": THREAD}.values()).possible
    assert b"".join(blocks(rows)) == b"".join(blocks(rows)) != b""


class Progress:
    """As `tqdm` of a generator: no iterator, but what was read is gone."""

    def __init__(self) -> None:
        self._rows = iter([ROW])

    def __iter__(self) -> Iterator[Any]:
        yield from self._rows


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


@pytest.mark.parametrize("rows", [iter([ROW]), Progress(), Pipe()])
def test_what_can_be_read_once_is_not_sent_again(rows: Threads) -> None:
    assert not Resend(rows).possible
    assert not Resend(with_columns(rows, COLUMNS)).possible
    assert not Resend(with_columns(io.BytesIO(), COLUMNS)).possible


def test_a_named_pipe_is_not_sent_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "threads.jsonl")
    assert not Resend(tmp_path / "threads.jsonl").possible


@pytest.mark.parametrize(
    ("row", "columns", "thread"),
    [
        ({"prompt": "q", "completion": "c", "a": 1}, {}, {"prompt": "q", "completion": "c", "metadata": {"a": 1}}),
        ({"completion": "g", "said": "c"}, SAYS, {"completion": "c", "metadata": {"completion": "g"}}),
        ({"completion": "c", "info": {"a": 1}, "b": 2}, {"info": "metadata"}, C | {"metadata": {"a": 1, "b": 2}}),
        ({"completion": "c", "metadata": None, "b": 2}, {}, {"completion": "c", "metadata": {"b": 2}}),
        ({"chat": [SAID]}, {"chat": "messages"}, {"messages": [SAID], "metadata": {}}),
    ],
)
def test_a_column_that_is_called_as_a_member_is_that(
    row: dict[str, Any], columns: dict[str, str], thread: object
) -> None:
    assert sent([row], columns) == [thread]


@pytest.mark.parametrize(
    ("rows", "columns", "said"),
    [
        ([ROW], {"question": "reply"}, "a thread has messages, .* and no 'reply'$"),
        ([ROW], {"completion": "reply"}, "and no 'reply': write {'reply': 'completion'}$"),
        ([ROW], {"question": "prompt", "response": "prompt"}, "two columns cannot be the same member"),
        ([ROW], {"quest": "prompt"}, "row 0 has no column 'quest': it has question, response, answer, id"),
        ([ROW, {"response": "4"}], COLUMNS, "row 1 has no column 'question'"),
        ([{"said": object()}], SAYS, "row 0, column 'said': it holds a value of type object"),
        *(([{"said": none}], SAYS, '"completion" must be text or a list of .* null') for none in (None, math.nan)),
        ([{"m": 1, "completion": "c"}], {"m": "metadata"}, "holds dicts, and this is a int"),
        (io.BytesIO(b'[{"completion": "c"}]'), {}, "the file of threads is one JSON array"),
    ],
)
def test_what_is_wrong_is_said(rows: Threads, columns: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        sent(rows, columns)


def test_lines_of_a_file_that_are_no_rows_are_sent_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\n{"response": "4"}\r\n \t\n{"response": \r\n7\n{"response": "5"}\n\n \n')
    rows = [b"", b'{"completion":"4","metadata":{}}', b"", b'{"response": ', b"7", b'{"completion":"5","metadata":{}}']
    for threads in (path, path.open("rb"), path.open(encoding="utf-8", newline="")):
        given: Any = threads
        assert b"".join(blocks(with_columns(given, {"response": "completion"}))).splitlines() == rows
    [(_, lines)] = Pieces(with_columns(path, {"response": "completion"}), ScoreLimits())  # members of a JSON array
    assert lines == [b'""', rows[1], b'""', b'"{\\"response\\": "', b'"7"', rows[5]]


def test_rows_that_are_no_dicts_are_refused() -> None:
    rows: Iterable[Any] = ["question", "response"]  # as from iterating over a DataFrame
    with pytest.raises(TypeError, match="row 0 is a str, and columns= needs dicts"):
        sent(rows, {})


def test_values_that_json_lacks_have_a_stated_form() -> None:
    row = {
        "completion": "c",
        "when": datetime(2026, 1, 2, tzinfo=UTC),
        "price": Decimal("1.50"),
        "key": UUID(int=1),
        "nan": math.nan,
        "none": Decimal("NaN"),
        "array": np.array([1.5, math.nan]),
    }
    assert sent([row, row], {})[1]["metadata"] == {
        "when": "2026-01-02T00:00:00+00:00",
        "price": "1.50",
        "key": "00000000-0000-0000-0000-000000000001",
        "nan": None,
        "none": None,
        "array": [1.5, None],
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((np.datetime64("2024-01-02T03:04:05", unit), "2024-01-02T03:04:05") for unit in ("s", "ms", "us", "ns")),
        *((np.datetime64("2024-01-02T03:04:05.12", unit), "2024-01-02T03:04:05.120000") for unit in ("ms", "ns")),
        (np.datetime64("2024-01-02T03:04:05.123456789"), "2024-01-02T03:04:05.123456789"),
        (np.datetime64("2024-01-02"), "2024-01-02"),
        (np.datetime64("20000-01-02"), "20000-01-02"),
        (np.datetime64("NaT", "ns"), None),
        (np.datetime64("NaT", "s"), None),
    ],
)
def test_times_of_numpy_are_iso_8601_whatever_they_count_in(value: np.datetime64, text: str | None) -> None:
    row = {"completion": "c", "one": value, "many": np.array([value]), "deep": np.array([[value]])}
    row["none"], row["object"] = np.array(value), np.array([value], dtype=object)
    told = {"one": text, "many": [text], "deep": [[text]], "none": text, "object": [text]}
    assert sent([row], {})[0]["metadata"] == told


def test_times_of_pandas_are_iso_8601() -> None:
    import pandas  # here, because each test process would import it to collect the tests

    times = pandas.Series(pandas.to_datetime(["2024-01-02T03:04:05", None]))
    for series in (times, times.dt.tz_localize("UTC")):
        zone = "" if series is times else "+00:00"
        (thread,) = sent([{"completion": "c", "when": series, "one": series[0]}], {})
        assert thread["metadata"] == {"when": [f"2024-01-02T03:04:05{zone}", None], "one": f"2024-01-02T03:04:05{zone}"}


def test_a_record_of_numpy_keeps_its_names() -> None:
    records = np.array([(1, [2.5, math.nan], "2024-01-02")], dtype=[("a", "i4"), ("b", "f8", 2), ("c", "M8[ns]")])
    (thread,) = sent([{"completion": "c", "one": records[0], "many": records}], {})
    record = {"a": 1, "b": [2.5, None], "c": "2024-01-02T00:00:00"}
    assert thread["metadata"] == {"one": record, "many": [record]}


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (object(), "a value of type object"),
        ({1, 2}, "a value of type set"),
        (b"x", "a value of type bytes"),
        (timedelta(1), "a value of type timedelta"),
        (np.timedelta64(1, "s"), "a value of type timedelta64"),
        (np.array([1], "m8[ns]"), "a value of type timedelta64"),
        (np.longdouble("0.1"), "a value of type longdouble"),
        (np.array([1], "g"), "a value of type longdouble"),
        (np.array([1], "c16"), "a value of type complex"),
        (np.array([(1, math.inf)], dtype=[("a", "i4"), ("b", "f8")]), "infinity"),
        (math.inf, "infinity"),
        (Decimal("-Infinity"), "infinity"),
        ({"a": [1, {"b": math.inf}]}, "infinity"),
        (np.array([math.inf]), "infinity"),
        ({"a": {1: 0.5}}, "a dict with the key 1, which is no text"),
        ([{None: "b"}], "a dict with the key None, which is no text"),
        (CIRCLE, "more than 64 levels"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_row_and_column(value: object, said: str) -> None:
    rows = [{"completion": "c", "odd": 1}, {"completion": "c", "odd": value}]
    with pytest.raises(ValueError, match=f"row 1, column 'odd': it holds .*{said}"):
        sent(rows, {})
    with pytest.raises(ValueError, match=f"row 1, column 'odd': it holds .*{said}"):
        trl.threads(["q", "q"], ["c", "c"], {"odd": [1, value]})
    assert trl.threads(["q", "q"], ["c", "c"], {"odd": [1, value], "a": [1, 2]}, ["a"])[1]["metadata"] == {"a": 2}


class Dataset(list[dict[str, Any]]):
    """Like a `datasets.Dataset`, whose `to_dict` returns the columns, and takes the size of blocks."""

    def to_dict(self, batch_size: int | None = None) -> dict[str, list[Any]]:
        return {name: [row[name] for row in self] for name in self[0]}


def test_rows_of_a_dataset() -> None:
    assert sent(Dataset([ROW, ROW]), COLUMNS) == [THREAD, THREAD]


def test_rows_of_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([ROW, ROW | {"answer": None}]).assign(when=pandas.Timestamp("2026-01-02"), at=pandas.NaT)
    told = {"when": "2026-01-02T00:00:00", "at": None}
    rows = with_columns(frame, COLUMNS)
    assert Resend(rows).possible
    assert sent(frame, COLUMNS) == [THREAD | {"metadata": {"answer": answer, **told}} for answer in ("4", None)]
    twice = pandas.concat([frame, frame[["response"]]], axis=1)
    with pytest.raises(ValueError, match="several columns 'response': rename them"):
        sent(twice, COLUMNS)


@pytest.mark.parametrize("columns", [["question"], "question"])
def test_columns_are_a_dict(columns: Any) -> None:
    with pytest.raises(TypeError, match=r'columns=.* is no dict: pass one such as {"question": "prompt"}'):
        with_columns([ROW], columns)
