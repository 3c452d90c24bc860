"""Tests that docs/cli.md names every command and every option."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from gradebox.cli import app

TEXT = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
TOKENS = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", TEXT))


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
    for part, each in (below or {}).items():
        yield from commands(each, f"{name} {part}".strip())


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_every_command_is_documented() -> None:
    assert [name for name in COMMANDS if not re.search(rf"`(gradebox )?{name}\b", TEXT)] == []


def test_all_options_are_documented() -> None:
    for name, command in COMMANDS.items():
        named = {option for each in command.params for option in [*each.opts, *each.secondary_opts]}
        assert {option for option in named if option.startswith("-")} <= TOKENS, name


def test_every_command_says_what_it_does() -> None:
    assert [name for name, command in COMMANDS.items() if not command.help] == []


def test_a_shell_completes_commands() -> None:
    program = Path(sys.executable).with_name("gradebox")
    asked = {"_GRADEBOX_COMPLETE": "complete_bash", "COMP_WORDS": "gradebox graders cr", "COMP_CWORD": "2"}
    done = subprocess.run([program], env=os.environ | asked, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["create"], done.stderr
