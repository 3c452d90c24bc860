"""Tests of the output of summaries."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import typer

from gradebox.cli import files, output, score
from gradebox.outcome import Outcome, Spent
from storage.statistics.outcome_tally import tally
from storage.statistics.summary import summarise


def test_what_asks_came_to_is_a_table_where_there_were_asks(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [Outcome(0, "judge@1", 0.5, 1.0, spent=Spent(2_000, 500, 30_000, 4_000, 0.00001))]
    plain = [Outcome(0, "plain@1", 0.5, 1.0)]
    summaries = [summarise(outcomes[0].grader, 1.0, tally(outcomes)) for outcomes in (asked, plain)]
    output.summaries(summaries)
    *_, title, _, row = (line.split() for line in capsys.readouterr().out.splitlines() if line.strip())
    assert title == ["grader", "asks", "kept", "input", "tokens", "output", "tokens", "USD"]
    assert row == ["judge@1", "2,000", "500", "30,000", "4,000", "0.00001"]
    output.summaries(summaries[1:])
    told = capsys.readouterr().out
    assert "asks" not in told
    assert "not applicable" not in told


@pytest.mark.parametrize(
    ("scores", "details", "shown"),
    [
        ((0.0, 0.5, 1.0), lambda n: {}, "judge@1 -0.06579 to 1.0658 normal 1 0.3333"),
        ((0.0, 0.5, 1.0), lambda n: {"option": "no" * n}, "judge@1 nono 1"),
        ((1.0, 1.0, 1.0), lambda n: {}, "judge@1 - - 3 1"),
        (
            (1.0, 1.0, 1.0),
            lambda n: {"positional_bias": {"detected": n == 1}},
            "judge@1: 1 of 3 decisions differ in the other order",
        ),
    ],
    ids=["interval", "options", "pass rate without an interval", "positional bias"],
)
def test_a_summary_shows_what_it_has(
    capsys: pytest.CaptureFixture[str], scores: tuple[float, ...], details: Callable[[int], dict[str, Any]], shown: str
) -> None:
    outcomes = [Outcome(n, "judge@1", score, 1.0, details=details(n)) for n, score in enumerate(scores)]
    output.summaries([summarise("judge@1", 1.0, tally(outcomes))])
    assert shown in {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}


def test_what_a_code_page_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, "cp1252", write_through=True))
    output.say("✓  café")
    output.table(["reason"], [("😀",)])
    assert b"\\u2713  caf\xe9" in written.getvalue()
    assert b"\\U0001f600" in written.getvalue()


def test_what_graders_write_moves_no_cursor_and_reorders_no_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = ["\x1b[2J", "\x9b2J", "\u202e", "\u2066", "\u061c", "\u2028", "\r"]
    text = "".join(evil) + "é\t"
    main, terminal = os.openpty()
    with os.fdopen(terminal, "w", encoding="utf-8", newline="") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        output.say(text)
        output.table(["reason"], [(text,)])
        output.as_json({"reason": text})
        output.verbatim(text)
        score.write_outcomes([Outcome(0, "g@1", 1.0, 1.0, reason=text)], sys.stdout.buffer)
    data = b""
    with suppress(OSError):  # at the end
        while block := os.read(main, 65536):
            data += block
    os.close(main)
    shown = data.decode().replace("\r\n", "\n")
    assert [one for one in evil if one in shown] == []
    assert shown.count("u202e") == 5
    assert '"reason": "\\u001b[2J\\u009b2J\\u202e' in shown
    written = BytesIO()
    score.write_outcomes([Outcome(0, "g@1", 1.0, 1.0, reason="\u202e")], written)
    assert "\u202e" in written.getvalue().decode()


BATCHES = [("6b077e842bfe40c5c818", "two-error-kinds@1", 50_000, 0.37291, "5,000 bad_return, 5,000 exception")] * 2


@pytest.mark.parametrize("width", [20, 60, 80, 100, 160])
def test_a_number_or_an_id_is_never_divided(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_WIDE", width)
    output.table(["id", "grader", "count", "mean", "errors"], BATCHES)
    told = capsys.readouterr().out
    for word in ("6b077e842bfe40c5c818", "two-error-kinds@1", "50,000", "0.3729", "bad_return,"):
        assert told.split().count(word) == 2
    assert max(map(len, told.splitlines())) <= width or width < 60


def test_a_table_that_is_too_wide_is_a_block_for_each_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_WIDE", 40)
    output.table(["id", "grader", "count"], [("6b077e842bfe40c5c818", "exact@1", 2_000), ("b", "exact@1", None)])
    lines = ["", "id      6b077e842bfe40c5c818", "grader  exact@1", "count   2,000"]
    assert capsys.readouterr().out.splitlines() == [*lines, "", "id      b", "grader  exact@1", "count   -", ""]
    output.table(["id", "x" * 50], [])
    assert "id" in capsys.readouterr().out


def test_long_words_of_free_text_are_divided(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_WIDE", 60)
    output.table(["index", "completion", "score"], [(1_000, "!" * 100, 0.25)])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    assert sum(line.count("!") for line in lines) == 100
    assert [line for line in lines if "1,000" in line and "0.25" in line]


@pytest.mark.parametrize(
    ("threads", "written", "is_same"),
    [
        ("-", "threads.jsonl", True),
        ("threads.jsonl", "-", True),
        ("-", "-", True),
        ("./threads.jsonl", "threads.jsonl", True),
        ("-", "other.jsonl", False),
        ("-", "missing.jsonl", False),
        ("/dev/null", "/dev/null", False),
    ],
)
def test_a_standard_stream_may_be_the_file_of_the_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: str, written: str, is_same: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.jsonl").write_bytes(b"{}\n")
    with Path("threads.jsonl").open("wb+") as file:
        monkeypatch.setattr(files, "_STDIN", file.fileno())
        monkeypatch.setattr(files, "_STDOUT", file.fileno())
        if is_same:
            with pytest.raises(typer.BadParameter, match=r"is the file of the threads, .*: name another"):
                files.refuse_same_file(Path(threads), Path(written))
        else:
            files.refuse_same_file(Path(threads), Path(written))


def test_a_closed_standard_input_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_STDIN", 1 << 20)
    files.refuse_same_file(Path("-"), tmp_path)


def test_a_terminal_shows_a_description_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [("exact-match@12", "function, locked", "2026-11-23", "looks for the answer in the completion " * 9)] * 2
    columns = ["grader", "kind", "updated", "description"]
    monkeypatch.setattr(output, "_WIDE", 80)
    output.table(columns, rows)
    assert len(capsys.readouterr().out.splitlines()) > 20
    monkeypatch.setenv("FORCE_COLOR", "1")
    output.table(columns, rows)
    lines = [line for line in capsys.readouterr().out.splitlines() if "exact-match@12" in line or "…" in line]
    assert len(lines) == 2
    assert max(map(len, lines)) <= 80


def test_a_file_that_a_full_disk_cuts_is_named() -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"), files.opened(Path("/dev/full")) as out:
        out.write(b"{}")


def test_a_file_that_is_not_written_to_its_end_leaves_the_older_one(tmp_path: Path) -> None:
    link, older = tmp_path / "link.jsonl", tmp_path / "out.jsonl"
    link.symlink_to(older)
    older.write_bytes(b"older")
    older.chmod(0o600)
    with pytest.raises(TimeoutError, match=r"^the batch did not end$"), files.opened(link) as out:
        out.write(b"newer")
        raise TimeoutError("the batch did not end")
    assert older.read_bytes() == b"older"
    assert (tmp_path / "out.jsonl.part").read_bytes() == b"newer"

    with files.opened(link) as out:
        out.write(b"newest")
        with files.opened(link) as other:  # of another run
            other.write(b"other")
        assert older.read_bytes() == b"other"
    assert (link.readlink(), older.read_bytes(), older.stat().st_mode & 0o777) == (older, b"newest", 0o600)
    assert (tmp_path / "out.jsonl.part").read_bytes() == b"newer"
    assert {*tmp_path.iterdir()} == {link, older, tmp_path / "out.jsonl.part"}


def test_an_interrupt_after_the_last_step_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        (tmp_path / "out.jsonl.part").rename(tmp_path / "out.jsonl")
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.move", interrupted)
    with pytest.raises(KeyboardInterrupt), files.opened(tmp_path / "out.jsonl"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_a_file_of_another_user_in_a_shared_folder_is_written() -> None:
    with TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o1777)
        file = Path(folder, "out.jsonl")
        file.write_bytes(b"older")
        file.chmod(0o666)
        try:
            os.seteuid(65534)
            with files.opened(file) as out:
                out.write(b"newer")
        finally:
            os.seteuid(0)
        assert [(path, path.read_bytes()) for path in Path(folder).iterdir()] == [(file, b"newer")]
