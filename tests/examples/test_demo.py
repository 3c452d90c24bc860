import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:  # short, because it contains Unix sockets
        yield Path(path)


def demo(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.demo", *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "COLUMNS": "160", **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )


def left_behind(folder: Path) -> list[str]:
    """Files in the folder, and processes whose command names it."""
    found = [str(path) for path in folder.iterdir()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:  # the process has ended
            continue
        if bytes(folder) in command:
            found.append(command.decode(errors="replace"))
    return found


@pytest.mark.service
@pytest.mark.sandbox
@pytest.mark.slow
def test_the_demo_scores_everything_and_leaves_nothing(folder: Path) -> None:
    done = demo(folder, GRADEBOX_WORKERS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = re.findall(r"(\S+@1) +│ +300 │ +(\S+) │ +(\S+) │ +(.+?) │", done.stdout)
    means = {grader: float(mean) for grader, mean, _, _ in lines}
    assert set(means) == {
        *("exact-match@1", "regex-match@1", "json-shape@1"),
        *("keywords@1", "gsm8k-answer@1", "code-execution@1", "explained-code@1"),
    }
    assert all(0.05 < mean < 0.95 for mean in means.values()), means
    errors = {grader: kinds for grader, _, _, kinds in lines if kinds != "none"}
    assert errors == {"regex-match@1": "1 timeout"}, done.stdout
    assert "check 'test_run' failed" in done.stdout
    assert "245 of 300 threads ask for no code" in done.stdout
    assert "it asked 55 times" in done.stdout
    ranks = re.findall(r"│ +(\d) │ +([\d.]+) │ (.+?) +│ (\d): ", done.stdout)
    assert ranks == [
        *(("1", "1.000", "1, 3, 4", "2"), ("2", "0.667", "1, 3", "4")),
        *(("3", "0.333", "1", "3"), ("4", "0.000", "none", "1")),
    ]
    assert left_behind(folder) == []


@pytest.mark.service
def test_a_demo_that_cannot_start_says_why_and_leaves_nothing(folder: Path) -> None:
    done = demo(folder, PATH=str(folder))  # it contains no redis-server
    assert done.returncode == 1
    assert "The demo failed: `gradebox serve` ended with status" in done.stdout
    assert "redis" in done.stdout
    assert left_behind(folder) == []
