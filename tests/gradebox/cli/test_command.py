"""Tests of what all commands have in common."""

import pytest
from typer.testing import CliRunner

from gradebox.cli import app
from gradebox.cli.command import Command
from tests.gradebox.cli.test_docs import COMMANDS


def test_no_command_takes_the_last_of_two_values() -> None:
    assert len(COMMANDS) > 50
    assert [name for name, command in COMMANDS.items() if not isinstance(command, Command)] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["score", "a", "--threads-of", "b", "--threads-of=c"], "--threads-of is given twice"),
        (["score", "a", "-o", "b", "--output", "c"], "--output is given twice, and takes one value: leave one out"),
        (["graders", "create", "a", "--criteria", "b", "--criteria", "c"], "--criteria is given twice"),
        (["serve", "--port", "1", "--port", "1"], "--port is given twice"),
        (["budget", "set", "--usd", "inf"], "--usd is inf, and must be a finite number"),
        (["batches", "feedback", "a", "--model", "b", "--threshold", "nan"], "--threshold is nan, and must be"),
        (["graders", "create", "a", __file__, "--timeout-s", "nan"], "'--timeout-s'"),
        (["keys", "create", "a", "--role", "admin"], "for '--role': 'admin' is not one of 'read', 'score', 'manage'."),
    ],
)
def test_what_a_command_refuses(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert said in done.output


def test_flags_and_lists_may_be_repeated() -> None:
    done = CliRunner().invoke(app, ["keys", "create", "--covers", "a", "--covers", "b", "--json", "--json", "--help"])
    assert done.exit_code == 0
    assert "given twice" not in done.output
