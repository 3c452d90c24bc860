"""Tests of the warnings of programs that the sandbox does not have."""

import ast

import pytest

from validators import programs


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import os\nos.system('python a')", "`os.system` needs a shell, and the sandbox has none: it returns 32512."),
        ("from os import system\nsystem('ls')", "`os.system` needs a shell"),
        ("import os\nos.popen('ls')", "`os.popen` needs a shell, and the sandbox has none: where the error is caught"),
        ("import subprocess\nsubprocess.run('ls', shell=True)", "`subprocess.run(..., shell=True)` needs a shell"),
        ("import subprocess as s\ns.getoutput('ls')", "`subprocess.getoutput` needs a shell"),
        ("import subprocess\nsubprocess.run(['no-such-program', '-c'])", "no program 'no-such-program', only `python`"),
        ("from subprocess import Popen as P\nP(('no-such-{program}',))", "no program 'no-such-{program}'"),
        (
            "import subprocess, sys\nsubprocess.run(how)\nhow = ['no-such-program']\nif x:\n    how = [sys.executable]",
            "no program 'no-such-program'",
        ),
        ("import asyncio\nasyncio.create_subprocess_exec('no-such-program', '-c')", "no program 'no-such-program'"),
    ],
)
def test_what_the_sandbox_lacks_is_warned_of(text: str, told: str) -> None:
    (warning,) = programs.warnings(ast.parse(text))
    assert warning.startswith("line 2: ")
    assert told in warning
    assert any(hint in text for hint in programs.HINTS)


def test_each_is_told_once_with_its_first_line() -> None:
    text = "import os, subprocess\nif x:\n    os.system('a')\nos.system('b')\nsubprocess.run(['no-such-program'])\n"
    assert [warning[:8] for warning in programs.warnings(ast.parse(text))] == ["line 3: ", "line 5: "]


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'pass'], shell=False)",
        "import subprocess\nsubprocess.run(['python3', '-c', 'pass'])\nsubprocess.run(command)",
        "import subprocess\nsubprocess.run([])\nsubprocess.run()",
        "import subprocess, sys\ncommand = [sys.executable]\nother = ['no-such-program']\nsubprocess.run(command)",
        "import asyncio\nasyncio.run(main())",
        "import typer\ntyper.run(['no-such-program'])\nrun(['no-such-program'])\nself.popen('x')",
        "import platform\nplatform.system()",
    ],
)
def test_nothing_else_is(text: str) -> None:
    assert programs.warnings(ast.parse(text)) == []
