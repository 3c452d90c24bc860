"""Tests of `gradebox selftest` with a few graders; tests/hostile uses all of them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from models.selftest import EchoAnswering
from sandbox import selftest
from sandbox.doctor import __main__ as doctor
from sandbox.hostile import trial
from sandbox.hostile.cases import Case
from sandbox.hostile.corpus import corpus
from sandbox.hostile.watched import Watched


def _case(name: str, category: str, score: float, **expect: object) -> Case:
    source = f"async def grade(thread):\n    return {score}\n"
    row = {"name": name, "category": category, "must": "stay in", "isolation": "completion", "source": source}
    return Case(row | {"threads": [{"completion": "x"}], "expect": {"valid": True} | expect})


# Its grader breaks its rule, like an attack that gets through a sandbox.
_THROUGH = _case("gets [out]\x1b[2J", "escape", 666.0, scores={"0": [0.25]})
_LATE = _case("late", "resource", 1.0, max_seconds=0)


def _run(patch: pytest.MonkeyPatch, cases: list[Case], *arguments: str) -> int:
    patch.setattr(selftest, "corpus", lambda: cases)
    patch.setattr(trial, "_PAUSES_S", (0.0, 0.0))
    patch.setattr(sys, "argv", ["selftest", *arguments])
    return selftest.main(EchoAnswering())


@pytest.mark.sandbox
def test_what_holds_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asks = next(case for case in corpus() if case.category == "asking")
    monkeypatch.setenv("GRADEBOX_TEXT_BYTES", "16384")  # the cases are judged by the default
    wordy = "from gradebox import Score\nasync def grade(thread):\n    return Score(1.0, reason='x' * 16384)\n"
    assert _run(monkeypatch, [*corpus()[:2], asks, Case(_LATE.row | {"source": wordy, "expect": {"valid": True}})]) == 0
    assert "All 4 attacks held." in capsys.readouterr().out


@pytest.mark.sandbox
def test_a_breach_is_told_with_its_meaning(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(monkeypatch, [*corpus()[:2], _THROUGH]) == 1
    out = capsys.readouterr().out
    assert "1 of 3 attacks got through" in out
    assert "gets [out]" in out
    assert "must: stay in" in out
    assert "was scored 666.0" in out
    assert "a grader can get out" in out
    assert "\x1b" not in out


@pytest.mark.sandbox
def test_a_machine_that_is_too_busy_is_no_breach(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, [_LATE]) == 1
    out = capsys.readouterr().out
    assert "1 of 1 attacks took too long, so it is not known whether they hold." in out
    assert "means: this machine may be too busy" in out
    assert "breach" not in out and "got through" not in out


@pytest.mark.sandbox
def test_programs_read_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(monkeypatch, [_THROUGH, _LATE], "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["held"] is False
    assert told["tried"] == {"escape": 1, "resource": 1}
    assert [breach["name"] for breach in told["breaches"]] == [_THROUGH.name, "late"]


@pytest.mark.sandbox
def test_one_kind_can_be_tried_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(monkeypatch, [_THROUGH, _LATE], "--json", "--category", "resource") == 1
    assert json.loads(capsys.readouterr().out)["tried"] == {"resource": 1}


@pytest.mark.sandbox
def test_what_sandboxes_leave_is_a_breach(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Watched, "left", lambda _: ["process 7 lives"])
    assert _run(monkeypatch, corpus()[:1]) == 1
    assert "process 7 lives" in capsys.readouterr().out


def test_without_a_sandbox_nothing_is_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GRADEBOX_BACKEND", "bubblewrap")
    assert _run(monkeypatch, corpus()[:1]) == 2
    assert "`bwrap` is not installed" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("main", [doctor.main, lambda: selftest.main(EchoAnswering())])
def test_ctrl_c_is_one_line(
    main: Callable[[], int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["gradebox"])
    monkeypatch.setattr(selftest, "run", interrupted)
    monkeypatch.setattr(doctor, "EXAMINED", dict.fromkeys(doctor.EXAMINED, interrupted))
    assert main() == 130
    assert capsys.readouterr().err == "gradebox: interrupted\n"


def test_every_category_says_what_a_breach_means() -> None:
    assert {case.category for case in corpus()} | {"left behind"} == selftest._CATEGORIES.keys()
