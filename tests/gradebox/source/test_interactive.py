"""Tests of functions typed into the interactive Python, which keeps their source since 3.13."""

import linecache
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gradebox
from gradebox.errors import SourceError
from gradebox.source import extract
from tests.gradebox.source.extracted import run

ROOT = Path(gradebox.__file__).parents[1]
INPUTS = [
    "import re",
    "LIMIT = 1",
    "def hits(text):\n    return len(re.findall('[0-9]', text))",
    "no Python at all",
    "LIMIT = 3",
    "async def mine(thread):\n    return LIMIT + hits(thread.completion())",
]


@pytest.mark.parametrize("name", ["<python-input-{}>", "<stdin>-{}", "<stdin-{}>"])
@pytest.mark.parametrize("by_code", [False, True])  # as later releases of 3.13 keep them
def test_a_grader_spread_over_inputs(name: str, by_code: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[object, object] = {}
    monkeypatch.setattr(linecache, "_interactive_cache" if by_code else "cache", kept, raising=False)
    typed: dict[str, object] = {"__name__": "__main__"}
    for number, text in enumerate(INPUTS, 8):  # the inputs are sorted by number: 10 after 9
        file = name.format(number)
        entry = (len(text), None, text.splitlines(keepends=True), file)
        kept[(file, "<module>", 1) if by_code else file] = entry
        if text != "no Python at all":
            exec(compile(text, file, "exec"), typed)
    mine = typed["mine"]
    assert callable(mine)
    assert run(tmp_path, extract(mine), ["a12", ""]) == [5, 3]


def test_what_came_through_a_pipe_is_kept_nowhere() -> None:
    typed: dict[str, object] = {"__name__": "__main__"}
    exec(compile(INPUTS[-1], "<stdin>", "exec"), typed)
    mine = typed["mine"]
    assert callable(mine)
    with pytest.raises(SourceError, match="Python keeps no source of that: put the function in a file"):
        extract(mine)


def test_what_a_real_one_keeps_is_found() -> None:
    python = sys.executable if sys.version_info >= (3, 13) else shutil.which("python3.13") or ""
    if not python or subprocess.run([python, "-c", "pass"], capture_output=True).returncode:
        pytest.skip("no Python 3.13 here")
    typed = "\n".join(
        [*INPUTS[:3], "", *INPUTS[4:], "", "from gradebox.source import extract", "print(extract(mine))", ""]
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([python, "-i"], input=typed, capture_output=True, text=True, env=env, timeout=60)
    for part in ("import re\n", "LIMIT = 3\n", "def hits(text):\n", "async def grade(thread):\n"):
        assert part in done.stdout, done.stderr
    one_line = f"from gradebox.source import extract\n{INPUTS[0]}\nasync def g(t): return 1.0\nprint(extract(g))"
    done = subprocess.run([python, "-c", one_line], capture_output=True, text=True, env=env, timeout=60)
    assert done.stdout.strip() == "async def grade(t): return 1.0"
