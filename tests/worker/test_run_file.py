"""Tests of `gradebox run`, which checks a grader and scores a file without a service."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from gradebox.cli import app
from gradebox.service import server_programs
from sandbox.pool.pool import Pool, open_pool
from sandbox.settings import SandboxSettings
from tests.waiting import eventually
from tests.wheels import folder_for_environments, make_wheel
from worker import run_file

pytestmark = pytest.mark.sandbox

READS = """
async def grade(thread: StringThread) -> float:
    return float(thread.metadata["answer"] == thread.completion())
"""
ROOT = Path(__file__).parents[2]


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(folder: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `gradebox run` in this process, with the sandboxes of the tests or `own`."""

    def run(*arguments: str, stdin: bytes = b"", own: Pool = pool) -> subprocess.CompletedProcess[str]:
        def become(module: str, options: Sequence[str], _settings: object) -> None:
            assert module == "worker.run_file"
            monkeypatch.setattr(sys, "argv", ["run", *options])
            sys.exit(run_file.main())

        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        monkeypatch.setattr(run_file, "open_pool", lambda _settings: nullcontext(own))
        monkeypatch.setattr(server_programs, "become", become)
        with pytest.raises(SystemExit) as ended:
            app(["run", *arguments])
        assert isinstance(ended.value.code, int)
        return subprocess.CompletedProcess(arguments, ended.value.code, *capsys.readouterr())

    return run


def threads(*said: str) -> str:
    return "".join(json.dumps({"completion": one, "metadata": {"answer": "4"}}) + "\n" for one in said)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reads.py").write_text(READS)
    return tmp_path


def test_a_file_is_checked_and_scored(folder: Path) -> None:
    (folder / "threads.jsonl").write_text(threads(*["4", "5"] * 600) + "no thread\n" + threads("4") + "\n \n")
    done = subprocess.run(
        [sys.executable, "-m", "gradebox", "run", "reads.py", "--threads", "threads.jsonl", "-o", "out.jsonl"],
        env={name: value for name, value in os.environ.items() if not name.startswith("GRADEBOX_")}
        | {"PYTHONPATH": str(ROOT), "GRADEBOX_URL": "http://127.0.0.1:1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("✓") == 5
    assert "1,202" in done.stdout
    assert "bad_input, first at thread 1200: the line is not JSON" in done.stderr
    outcomes = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert [outcome["index"] for outcome in outcomes] == list(range(1202))
    assert [outcome["score"] for outcome in outcomes] == [1.0, 0.0] * 600 + [None, 1.0]
    assert sorted(path.name for path in folder.iterdir()) == ["out.jsonl", "reads.py", "threads.jsonl"]


def test_ctrl_c_ends_it_in_a_line_and_keeps_the_older_outcomes(folder: Path) -> None:
    slow = "import time\nasync def grade(thread: StringThread) -> float:\n    time.sleep(4)\n    return 1.0\n"
    (folder / "slow.py").write_text(slow)
    (folder / "threads.jsonl").write_text(threads("4"))
    (folder / "out.jsonl").write_text("older")
    command = [sys.executable, "-m", "gradebox", "run", "slow.py", "--threads", "threads.jsonl", "-o", "out.jsonl"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, cwd=folder, stdout=pipe, stderr=pipe, text=True) as process:
        eventually(lambda: any(folder.glob("out.jsonl.*")), 20.0)  # it scores
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=20)
    assert "✓  test_run" in printed
    assert (process.returncode, errors) == (130, "gradebox: interrupted\n")
    assert [path.read_text() for path in folder.glob("out.jsonl*")] == ["older"]


def test_a_program_reads_json_or_outcomes(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "rows.jsonl").write_text('{"question": "2+2?", "said": "4", "answer": "4"}\n' * 3)
    arguments = ["reads.py", "--threads", "-", "--column", "question=prompt", "--column=said=completion"]
    told = json.loads(run(*arguments, "--json", stdin=(folder / "rows.jsonl").read_bytes()).stdout)
    assert told["report"]["valid"]
    assert (told["summary"]["count"], told["summary"]["mean"]) == (3, 1.0)
    monkeypatch.setattr(run_file, "_SLICE_LINES", 2)
    monkeypatch.setattr(run_file, "_LINE_EVERY_S", 0.0)
    piped = run(*arguments, "-o", "-", stdin=(folder / "rows.jsonl").read_bytes())
    assert [json.loads(line)["score"] for line in piped.stdout.splitlines()] == [1.0] * 3
    checks, lines, summary = (piped.stderr.index(one) for one in ("✓  test_run", "reads: 2 completions so", "grader "))
    assert checks < lines < summary


def test_a_slow_grader_is_checked_on_fewer_threads_and_shows_that_it_works(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_file, "_LINE_EVERY_S", 0.1)
    monkeypatch.setattr(run_file, "TEST_RUN_S", 2.5)
    (folder / "slow.py").write_text("import time\nasync def grade(thread):\n    time.sleep(0.2)\n    return 1\n")
    (folder / "threads.jsonl").write_text(threads(*"4444"))
    done = run("slow.py", "--threads", "threads.jsonl", "--timeout-s", "1")
    assert "for each of 2 threads" in done.stdout
    assert "slow: the checks run\n" in done.stderr
    assert "slow: 1 completions so far\n" in done.stderr


def test_without_threads_it_is_checked_alone(folder: Path, run: Run) -> None:
    (folder / "half.py").write_text("async def grade(thread: StringThread) -> float:\n    return 0.5\n")
    assert run("half.py").returncode == 0
    failed = run("reads.py")
    assert failed.returncode == 1
    assert "KeyError: 'answer'" in failed.stdout


def test_a_function_of_a_file_is_run_with_its_modules(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    (folder / "my_run_tools.py").write_text("def weigh(text):\n    return len(text)\n")
    (folder / "my_run_graders.py").write_text(
        "from my_run_tools import weigh\nasync def weight(thread):\n    return weigh(thread.completion())\n"
    )
    (folder / "threads.jsonl").write_text(threads("44"))
    done = run("my_run_graders.py", "--function", "weight", "--threads", "threads.jsonl", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["summary"]["mean"] == 2.0


def test_an_openai_function_that_prints_first_is_run(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    text = "print('loading')\ndef same(sample, item):\n    return float(sample['output_text'] == item['answer'])\n"
    (folder / "my_openai_graders.py").write_text(text)
    (folder / "threads.jsonl").write_text(threads("4", "5"))
    options = ("--function", "same", "--contract", "openai", "--threads", "threads.jsonl", "--json")
    done = run("my_openai_graders.py", *options)
    assert json.loads(done.stdout)["summary"]["mean"] == 0.5
    assert "loading" in done.stderr


def test_a_file_with_a_modules_name_is_refused(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "types.py").write_text("async def one(thread):\n    return 1\n")
    done = run("types.py", "--function", "one")
    assert done.returncode == 2
    assert "types.py cannot be imported, as another module is called types: rename the file" in done.stderr


def test_what_is_not_valid_or_never_scores_exits_1(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bad.py").write_text("async def grade(")
    (folder / "long.py").write_text("#" * 100_000)
    (folder / "fails.py").write_text(READS.replace("return", "assert len(thread.completion()) == 1; return"))
    (folder / "threads.jsonl").write_text(threads(*["4"] * 20))
    assert "✗  syntax" in run("bad.py", "--threads", "threads.jsonl").stdout
    long = run("long.py")
    assert long.returncode == 1
    assert "at most 65536" in long.stdout
    monkeypatch.setenv("GRADEBOX_SOURCE_BYTES", "100000")
    assert "✗  structure" in run("long.py").stdout
    (folder / "threads.jsonl").write_text(threads("44"))
    assert run("fails.py", "--threads", "threads.jsonl").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["reads.py", "--threads", "none.jsonl"], "none.jsonl cannot be read"),
        (["reads.py", "--threads", "array.json"], "the file of threads is one JSON array"),
        (["reads.py", "--threads", "empty.jsonl"], "empty.jsonl is empty: write at least one thread"),
        (["reads.py", "--timeout-s", "121"], "'--timeout-s'"),
        (["reads.py", "--memory-mb", "2049"], "'--memory-mb'"),
        (["reads.py", "--threads", "good.jsonl", "--output", "none/out"], "none/out cannot be written"),
        (["reads.py", "--threads", "good.jsonl", "--output", "./good.jsonl"], "good.jsonl is the file of the threads"),
        (["reads.py", "--threads", "good.jsonl", "--column", "x"], "write NAME=MEMBER"),
        (["reads.py", "--package", "a @ file:///b.whl"], "names a URL"),
        (["reads.py", "--data", "nothing"], "nothing"),
    ],
)
def test_what_cannot_be_tried_exits_2(folder: Path, run: Run, arguments: list[str], said: str) -> None:
    (folder / "array.json").write_text("[]")
    (folder / "empty.jsonl").write_text("\n")
    (folder / "good.jsonl").write_text(threads("4"))
    done = run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_wrong_setting_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADEBOX_LOAD_S", "x")
    done = run("reads.py")
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


def test_packages_and_data_are_built_once(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    index = folder / "index"
    make_wheel(index, "shouting", {"shouting/__init__.py": "LOUDNESS = 0.5\n"})
    (folder / "imports.py").write_text(IMPORTS)
    (folder / "data").mkdir()
    (folder / "data" / "more.txt").write_text("0.25")
    (folder / "requirements.txt").write_text("shouting==1.0  # loud\n")
    (folder / "threads.jsonl").write_text(threads("4"))
    asked = ["imports.py", "--threads", "threads.jsonl", "-o", "-", "--data", "data"]
    monkeypatch.setenv("GRADEBOX_ENVIRONMENTS_INDEX", index.as_uri())
    with folder_for_environments() as unpacked:
        settings = SandboxSettings(environments_dir=unpacked)
        with open_pool(settings) as own:
            first = run(*asked, "--package", "shouting==1.0", own=own)
        old = unpacked / ".run-old"  # of an environment that was removed, for example after two weeks without use
        old.write_text('{"sha256": "%s", "packages": []}' % ("c" * 64))
        with open_pool(settings) as own:
            again = run(*asked, "-r", "requirements.txt", own=own)
            (folder / "data" / "more.txt").write_text("0.5")
            other = run(*asked, "-r", "requirements.txt", own=own)
            none = run("imports.py", "--package", "no-such-package", own=own)
        built = [path for path in unpacked.iterdir() if len(path.name) == 64]
        notes = list(unpacked.glob(".run-*"))

    assert [json.loads(done.stdout)["score"] for done in (first, again, other)] == [0.75, 0.75, 1.0], first.stderr
    assert "environment: compiling" in first.stderr
    assert "environment:" not in again.stderr
    assert "packages of the environment may run text as code: shouting." in again.stderr
    assert len(built) == len(notes) == 2
    assert old not in notes
    assert none.returncode == 2
    assert "no-such-package" in none.stderr and "Traceback" not in none.stderr
