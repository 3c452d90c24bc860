"""Tests of the output of summaries."""

import pytest

from gradebox.cli import output
from gradebox.outcome import Outcome, Spent
from storage.statistics import tally
from storage.summary import summarise


def test_what_asks_came_to_is_a_table_where_there_were_asks(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [Outcome(0, "judge@1", 0.5, 1.0, spent=Spent(2_000, 500, 30_000, 4_000, 1.25))]
    plain = [Outcome(0, "plain@1", 0.5, 1.0)]
    summaries = [summarise(outcomes[0].grader, 1.0, tally(outcomes)) for outcomes in (asked, plain)]
    output.summaries(summaries)
    *_, title, _, row = (line.split() for line in capsys.readouterr().out.splitlines() if line.strip())
    assert title == ["grader", "asks", "kept", "input", "tokens", "output", "tokens", "cost"]
    assert row == ["judge@1", "2,000", "500", "30,000", "4,000", "1.25"]
    output.summaries(summaries[1:])
    told = capsys.readouterr().out
    assert "asks" not in told
    assert "not applicable" not in told


def test_positional_bias_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    told = [Outcome(n, "judge@1", 1.0, 1.0, details={"positional_bias": {"detected": n == 1}}) for n in range(3)]
    output.summaries([summarise("judge@1", 1.0, tally(told))])
    assert "judge@1: 1 of 3 decisions differ in the other order" in capsys.readouterr().out


def test_intervals_and_options_are_tables(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [Outcome(number, "judge@1", number / 2, 1.0, details={"option": "no" * number}) for number in range(3)]
    output.summaries([summarise("judge@1", 1.0, tally(outcomes))])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["judge@1", "-0.06579", "to", "1.0658", "normal", "1", "0.3333"] in lines
    assert ["judge@1", "nono", "1"] in lines


def test_equal_scores_have_a_pass_rate_without_an_interval(capsys: pytest.CaptureFixture[str]) -> None:
    output.summaries([summarise("judge@1", 1.0, tally([Outcome(number, "judge@1", 1.0, 1.0) for number in range(3)]))])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["judge@1", "-", "-", "3", "1"] in lines
