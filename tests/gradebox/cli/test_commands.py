"""The commands against a real service."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from tests.gradebox.conftest import ROOT, Service

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

HALF = "async def grade(thread: StringThread) -> float:\n    return 0.5\n"
BROKEN = "import numpy\n\nasync def grade(thread: StringThread) -> float:\n    return 0.5\n"
THREADS = b'{"completion": "a"}\n{"completion": "b"}\nno thread\n'


@pytest.fixture
def half(tmp_path: Path) -> Path:
    path = tmp_path / "half.py"
    path.write_text(HALF)
    return path


@pytest.fixture
def grader(service: Service, half: Path) -> str:
    key = f"half-{uuid4().hex[:8]}"
    assert service.run("graders", "create", key, str(half)).returncode == 0
    return key


def test_a_valid_grader_gets_a_line_for_each_check(service: Service, half: Path) -> None:
    done = service.run("validate", str(half))

    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines[:5]] == ["syntax", "structure", "signature", "execution", "test_run"]
    assert all(line.startswith("✓") for line in lines[:5])


def test_a_grader_that_is_not_valid_is_told_where_and_why(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(BROKEN)

    done = service.run("validate", str(path))

    assert done.returncode == 1
    assert "✗  execution" in done.stdout
    assert "numpy" in done.stdout
    assert "-  test_run   not reached" in done.stdout
    assert json.loads(service.run("validate", str(path), "--json").stdout)["valid"] is False


def test_threads_of_ones_own_are_each_reported(service: Service, half: Path, tmp_path: Path) -> None:
    (tmp_path / "threads.jsonl").write_bytes(b'{"completion": "a"}\n{"completion": "b"}\n')
    done = service.run("validate", str(half), "--threads", str(tmp_path / "threads.jsonl"))
    assert "thread 1: 0.5" in done.stdout


def test_a_grader_that_reads_metadata_is_proved_on_threads_that_have_some(service: Service, tmp_path: Path) -> None:
    (tmp_path / "reads.py").write_text('async def grade(thread): return float(thread.metadata["answer"] == "4")\n')
    (tmp_path / "threads.jsonl").write_bytes(b'{"completion": "a", "metadata": {"answer": "4"}}\n')
    create = ["graders", "create", f"reads-{uuid4().hex[:8]}", str(tmp_path / "reads.py")]
    threads = ["--threads", str(tmp_path / "threads.jsonl")]

    alone = service.run(*create)
    proved = service.run(*create, *threads)
    updated = service.run("graders", "update", *create[2:], "--timeout-s", "3", *threads)
    no_file = service.run("graders", "update", create[2], *threads)

    assert alone.returncode == 1
    assert "--threads FILE.jsonl" in alone.stderr
    assert [done.returncode for done in (proved, updated, no_file)] == [0, 0, 2], proved.stderr + updated.stderr


def test_what_could_not_be_asked_exits_2(service: Service, half: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n{")
    nobody = service.run("validate", str(half), "--url", "http://127.0.0.1:1")
    stranger = service.run("validate", str(half), "--api-key", "gbx_wrong_key")
    bad_threads = service.run("validate", str(half), "--threads", str(tmp_path / "bad.jsonl"))

    assert [done.returncode for done in (nobody, stranger, bad_threads)] == [2, 2, 2]
    assert "no service answers at http://127.0.0.1:1" in nobody.stderr
    assert "line 2" in bad_threads.stderr
    assert all("Traceback" not in done.stderr for done in (nobody, stranger, bad_threads))


def test_a_source_that_is_not_utf_8_names_the_byte(service: Service, tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"x = 1\ny = '\xe9'\n")
    done = service.run("validate", str(tmp_path / "latin.py"))
    assert done.returncode == 1
    assert "byte 0xe9 in line 2" in done.stderr


def test_a_grader_lives_its_life(service: Service, grader: str, tmp_path: Path) -> None:
    changed = tmp_path / "changed.py"
    changed.write_text(HALF.replace("0.5", "0.75"))

    assert f"{grader}@2" in service.run("graders", "update", grader, str(changed), "--timeout-s", "1").stdout
    assert service.run("graders", "update", grader, "--description", "always a half").returncode == 0
    assert "always a half" in service.run("graders", "list").stdout
    assert service.run("graders", "show", grader, "--source").stdout == changed.read_text()
    shown = json.loads(service.run("graders", "show", grader, "--json").stdout)
    assert [version["timeout_s"] for version in shown["versions"]] == [5.0, 1.0]

    assert service.run("graders", "lock", grader).returncode == 0
    refused = service.run("graders", "delete", grader)
    assert refused.returncode == 1
    assert len(refused.stderr.splitlines()) <= 2
    assert service.run("graders", "unlock", grader).returncode == 0
    assert service.run("graders", "delete", grader).returncode == 0
    assert service.run("graders", "show", grader).returncode == 1


def test_a_file_is_scored(service: Service, grader: str, tmp_path: Path) -> None:
    threads, out = tmp_path / "threads.jsonl", tmp_path / "out.jsonl"
    threads.write_bytes(THREADS)

    done = service.run("score", grader, str(threads), "-o", str(out))

    assert done.returncode == 0, done.stderr
    assert f"{grader}@1" in done.stdout
    assert "1 bad_input" in done.stdout
    outcomes = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(o["index"], o["score"]) for o in outcomes] == [(0, 0.5), (1, 0.5), (2, None)]


def test_standard_input_is_scored_to_standard_output(service: Service, grader: str) -> None:
    done = service.run("score", f"{grader}@1", "-", "-o", "-", stdin=THREADS)

    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["score"] for line in done.stdout.splitlines()] == [0.5, 0.5, None]
    assert f"{grader}@1" in done.stderr


def test_a_file_that_is_not_there_is_named(service: Service, grader: str, tmp_path: Path) -> None:
    missing = service.run("score", grader, str(tmp_path / "missing.jsonl"))
    closed = service.run("score", grader, "-", "-o", str(tmp_path / "no-folder" / "out.jsonl"), stdin=THREADS)

    assert [done.returncode for done in (missing, closed)] == [2, 2]
    assert "missing.jsonl" in missing.stderr
    assert "No such file" in closed.stderr


def test_the_summary_is_there_for_programs(service: Service, grader: str) -> None:
    done = service.run("score", grader, "-", "--json", stdin=THREADS)
    batch = json.loads(done.stdout)
    assert (batch["state"], batch["summary"][0]["mean"]) == ("finished", 0.5)

    assert json.loads(service.run("batches", "show", batch["id"], "--json").stdout)["id"] == batch["id"]
    assert batch["id"] in service.run("batches", "list").stdout
    assert len(service.run("batches", "outcomes", batch["id"], "--after", "0").stdout.splitlines()) == 2
    assert service.run("batches", "watch", batch["id"]).returncode == 0
    assert service.run("batches", "delete", batch["id"]).returncode == 0
    assert service.run("batches", "show", batch["id"]).returncode == 1


def test_an_unknown_grader_and_an_empty_batch_are_refused(service: Service, grader: str) -> None:
    for name, threads in (("no-such-grader", THREADS), (grader, b"")):
        done = service.run("score", name, "-", stdin=threads)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr


def test_ctrl_c_ends_the_watching_and_not_the_batch(service: Service, tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text("import time\nasync def grade(thread):\n    time.sleep(0.2)\n    return 1.0\n")
    (tmp_path / "threads.jsonl").write_bytes(b'{"completion": "a"}\n' * 30)
    key = f"slow-{uuid4().hex[:8]}"
    assert service.run("graders", "create", key, str(slow)).returncode == 0

    process = subprocess.Popen(
        [sys.executable, "-m", "gradebox", "score", key, str(tmp_path / "threads.jsonl")],
        env=service.environment | {"GRADEBOX_URL": service.url},
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not any(batch.graders[0].key == key for batch in service.client().batches.list()):
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)

    assert process.returncode == 130
    identity = stderr.split("gradebox batches watch ")[1].split("`")[0]
    assert "cancelled" in service.run("batches", "cancel", identity).stdout


def test_a_reader_that_goes_away_is_no_error(service: Service, grader: str) -> None:
    command = f"{sys.executable} -m gradebox score {grader} - -o - | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command],
        env=service.environment | {"GRADEBOX_URL": service.url},
        cwd=ROOT,
        input=b'{"completion": "a"}\n' * 20_000,
        capture_output=True,
        timeout=60,
    )
    assert len(done.stdout.splitlines()) == 1
    assert b"Traceback" not in done.stderr


def test_keys_are_made_and_revoked(service: Service) -> None:
    assert service.run("projects", "create", "cli-team").returncode == 0
    assert "cli-team" in service.run("projects", "list").stdout
    key = service.run("keys", "create", "by command", "--covers", "cli-team").stdout.strip()

    assert service.run("graders", "list", "--project", "cli-team", "--api-key", key).returncode == 0
    assert service.run("graders", "list", "--api-key", key).returncode == 1
    made = next(
        each for each in json.loads(service.run("keys", "list", "--json").stdout) if each["name"] == "by command"
    )
    assert service.run("keys", "revoke", made["id"]).returncode == 0
    assert service.run("graders", "list", "--project", "cli-team", "--api-key", key).returncode == 1


def test_help_is_quick() -> None:
    before = os.times()
    subprocess.run([sys.executable, "-m", "gradebox", "--help"], cwd=ROOT, check=True, capture_output=True)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    assert used < 1.0  # 0.2 s of a processor on an idle machine
    code = "import sys, gradebox.cli; print(sorted({'httpx', 'pydantic', 'rich.progress'} & sys.modules.keys()))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, env=dict(os.environ)
    )
    assert loaded.stdout == b"[]\n"
