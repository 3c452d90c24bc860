"""Tests of `gradebox run`, which checks a grader and scores a file without a service."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from sandbox.pool import Pool
from tests.wheels import folder_for_environments, make_wheel
from worker import run_file

pytestmark = pytest.mark.sandbox

READS = """
async def grade(thread: StringThread) -> float:
    return float(thread.metadata["answer"] == thread.completion())
"""
ROOT = Path(__file__).parents[2]


def run(folder: Path, *arguments: str, stdin: bytes = b"", **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRADEBOX_")}
    done = subprocess.run(
        [sys.executable, "-m", "gradebox", "run", *arguments],
        env=environment | {"PYTHONPATH": str(ROOT), "GRADEBOX_URL": "http://127.0.0.1:1"} | settings,
        cwd=folder,
        input=stdin,
        capture_output=True,
        timeout=120,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def threads(*said: str) -> str:
    return "".join(json.dumps({"completion": one, "metadata": {"answer": "4"}}) + "\n" for one in said)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reads.py").write_text(READS)
    return tmp_path


def test_a_file_is_checked_and_scored(folder: Path) -> None:
    (folder / "threads.jsonl").write_text(threads(*["4", "5"] * 600) + "no thread\n" + threads("4") + "\n \n")
    done = run(folder, "reads.py", "--threads", "threads.jsonl", "-o", "out.jsonl")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("✓") == 5
    assert "1,202" in done.stdout
    assert "bad_input, first at thread 1200: the line is not JSON" in done.stderr
    outcomes = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert [outcome["index"] for outcome in outcomes] == list(range(1202))
    assert [outcome["score"] for outcome in outcomes] == [1.0, 0.0] * 600 + [None, 1.0]
    assert sorted(path.name for path in folder.iterdir()) == ["out.jsonl", "reads.py", "threads.jsonl"]


def test_a_program_reads_json_or_outcomes(folder: Path) -> None:
    (folder / "rows.jsonl").write_text('{"question": "2+2?", "said": "4", "answer": "4"}\n' * 3)
    arguments = ["reads.py", "--threads", "-", "--column", "question=prompt", "--column=said=completion"]
    told = json.loads(run(folder, *arguments, "--json", stdin=(folder / "rows.jsonl").read_bytes()).stdout)
    assert told["report"]["valid"]
    assert (told["summary"]["count"], told["summary"]["mean"]) == (3, 1.0)
    piped = run(folder, *arguments, "-o", "-", stdin=(folder / "rows.jsonl").read_bytes())
    assert [json.loads(line)["score"] for line in piped.stdout.splitlines()] == [1.0] * 3
    assert "✓  test_run" in piped.stderr


def test_without_threads_it_is_checked_alone(folder: Path) -> None:
    (folder / "half.py").write_text("async def grade(thread: StringThread) -> float:\n    return 0.5\n")
    assert run(folder, "half.py").returncode == 0
    failed = run(folder, "reads.py")
    assert failed.returncode == 1
    assert "KeyError: 'answer'" in failed.stdout


def test_what_is_not_valid_or_never_scores_exits_1(folder: Path) -> None:
    (folder / "bad.py").write_text("async def grade(")
    (folder / "long.py").write_text("#" * 100_000)
    (folder / "fails.py").write_text(READS.replace("return", "assert len(thread.completion()) == 1; return"))
    (folder / "threads.jsonl").write_text(threads(*["4"] * 20))
    assert "✗  syntax" in run(folder, "bad.py", "--threads", "threads.jsonl").stdout
    assert run(folder, "long.py").returncode == 1
    (folder / "threads.jsonl").write_text(threads("44"))
    assert run(folder, "fails.py", "--threads", "threads.jsonl").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["reads.py", "--threads", "none.jsonl"], "none.jsonl cannot be read"),
        (["reads.py", "--threads", "array.json"], "the file of threads is one JSON array"),
        (["reads.py", "--threads", "good.jsonl", "--output", "none/out"], "none/out cannot be written"),
        (["reads.py", "--threads", "good.jsonl", "--output", "./good.jsonl"], "good.jsonl is the file of the threads"),
        (["reads.py", "--threads", "good.jsonl", "--column", "x"], "write NAME=MEMBER"),
        (["reads.py", "--package", "a @ file:///b.whl"], "names a URL"),
        (["reads.py", "--data", "nothing"], "nothing"),
    ],
)
def test_what_cannot_be_tried_exits_2(
    folder: Path,
    pool: Pool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    (folder / "array.json").write_text("[]")
    (folder / "good.jsonl").write_text(threads("4"))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["run", *arguments])
    monkeypatch.setattr(run_file, "open_pool", lambda _settings: nullcontext(pool))
    assert run_file.main() == 2
    assert said in capsys.readouterr().err


def test_a_wrong_setting_is_named(folder: Path) -> None:
    done = run(folder, "reads.py", GRADEBOX_LOAD_S="x")
    assert done.returncode == 2
    assert done.stderr.startswith("gradebox: GRADEBOX_LOAD_S is invalid")
    assert len(done.stderr.splitlines()) == 1


IMPORTS = """
import os
from pathlib import Path
from typing import Any

import shouting

async def grade(thread: StringThread) -> float:
    return shouting.LOUDNESS + float(Path(os.environ["ENVIRONMENT_DATA"], "more.txt").read_text())
"""


def test_packages_and_data_are_built_once(folder: Path) -> None:
    index = folder / "index"
    make_wheel(index, "shouting", {"shouting/__init__.py": "LOUDNESS = 0.5\n"})
    (folder / "imports.py").write_text(IMPORTS)
    (folder / "data").mkdir()
    (folder / "data" / "more.txt").write_text("0.25")
    (folder / "requirements.txt").write_text("shouting==1.0  # loud\n")
    (folder / "threads.jsonl").write_text(threads("4"))
    asked = ["imports.py", "--threads", "threads.jsonl", "-o", "-", "--data", "data"]
    with folder_for_environments() as unpacked:
        settings: Any = {"GRADEBOX_ENVIRONMENTS_DIR": str(unpacked), "GRADEBOX_ENVIRONMENTS_INDEX": index.as_uri()}
        first = run(folder, *asked, "--package", "shouting==1.0", **settings)
        again = run(folder, *asked, "-r", "requirements.txt", **settings)
        (folder / "data" / "more.txt").write_text("0.5")
        other = run(folder, *asked, "-r", "requirements.txt", **settings)
        none = run(folder, "imports.py", "--package", "no-such-package", **settings)
        built = [path for path in unpacked.iterdir() if len(path.name) == 64]

    assert [json.loads(done.stdout)["score"] for done in (first, again, other)] == [0.75, 0.75, 1.0], first.stderr
    assert "environment: compiling" in first.stderr
    assert "environment:" not in again.stderr
    assert "packages of the environment may run text as code: shouting." in again.stderr
    assert len(built) == 2
    assert none.returncode == 2
    assert "no-such-package" in none.stderr and "Traceback" not in none.stderr
