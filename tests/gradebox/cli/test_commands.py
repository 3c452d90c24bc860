"""Tests of the commands against a real service."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from tests.gradebox.conftest import ROOT, Service
from tests.gradebox.service.test_serve import one
from tests.processes import printed
from tests.waiting import eventually

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
    service.ok("graders", "create", key, str(half))
    return key


def test_a_valid_grader_gets_a_line_for_each_check(service: Service, half: Path) -> None:
    done = service.ok("validate", str(half))

    lines = done.splitlines()
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
    path.write_text(BROKEN.replace("import numpy", "def"))
    assert service.run("validate", str(path)).stdout.count("line 1") == 1
    assert json.loads(service.run("validate", str(path), "--json").stdout)["valid"] is False


def test_what_the_checks_warn_of_is_printed_once(service: Service, tmp_path: Path) -> None:
    (tmp_path / "sym.py").write_text(f"try:\n    import sympy\nexcept ImportError:\n    sympy = None\n{HALF}")
    key = f"warned-{uuid4().hex[:8]}"
    for command in (["create", key], ["update", key]):
        done = service.run("graders", *command, str(tmp_path / "sym.py"))
        assert done.stderr.startswith(f"warning: {key}@1: line 2: `sympy` cannot be imported"), done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_what_the_checks_warn_of_is_printed_where_one_fails(service: Service, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import urllib.request\nasync def grade(thread): return float(urllib.request.urlopen('http://a.test').status)\n"
    )
    done = service.refused("graders", "create", f"net-{uuid4().hex[:8]}", str(tmp_path / "net.py"))
    assert [line for line in done.splitlines() if line.startswith("warning: ")] == [
        "warning: line 1: `urllib.request` needs a network, and the sandbox has none: where the error is caught, the "
        "grader goes on without an answer"
    ]


def test_of_a_long_test_run_the_beginning_is_printed(service: Service, half: Path, tmp_path: Path) -> None:
    (tmp_path / "threads.jsonl").write_bytes(b'{"completion": "a"}\n' * 25 + b"\n \n")
    done = service.run("validate", str(half), "--threads", str(tmp_path / "threads.jsonl"))
    assert done.stdout.count(": 0.5\n") == 20
    assert "… and 5 more: --json prints all" in done.stdout


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
    assert [done.returncode for done in (proved, updated, no_file)] == [0, 0, 0], proved.stderr + updated.stderr
    assert f"{create[2]}@2" in no_file.stdout  # the same version, because the source is the same

    (tmp_path / "reads.py").write_text((tmp_path / "reads.py").read_text() + "# changed\n")
    assert f"{create[2]}@3" in service.run("graders", "update", *create[2:]).stdout
    assert "later proofs use: 1" in service.run("graders", "show", create[2]).stdout
    service.refused("validate", create[3])
    service.ok("validate", create[3], "--grader", create[2])


def test_values_of_scores_are_a_table_and_missing_completions_a_warning(service: Service, tmp_path: Path) -> None:
    source = "from gradebox import Score\nasync def grade(thread): return Score(0.5, values={'format': 0.25})\n"
    (tmp_path / "parts.py").write_text(source)
    (tmp_path / "threads.jsonl").write_bytes(b'{"completion": "a"}\n{"turns": [["user", "q"]]}\n')
    key = f"parts-{uuid4().hex[:8]}"
    service.ok("graders", "create", key, str(tmp_path / "parts.py"))

    done = service.ok("score", key, str(tmp_path / "threads.jsonl"))

    assert re.search(rf"{key}@1 +format +2 +0.25 +0.25 +0.25", done)
    assert "1 of 2 threads do not end with a turn of the assistant" in done


OFF = """
from gradebox import NotApplicable

async def grade(thread):
    if thread.completion() == "off":
        raise NotApplicable("no documents")
    return 0.5
"""


def test_what_a_grader_does_not_apply_to_is_told_apart(service: Service, tmp_path: Path) -> None:
    (tmp_path / "off.py").write_text(OFF)
    (tmp_path / "some.jsonl").write_bytes(b'{"completion": "a"}\n{"completion": "off"}\n' * 2)
    (tmp_path / "none.jsonl").write_bytes(b'{"completion": "off"}\n' * 2)
    key = f"off-{uuid4().hex[:8]}"
    validated = service.run("validate", str(tmp_path / "off.py"), "--threads", str(tmp_path / "some.jsonl"))
    assert "thread 1: does not apply: no documents" in validated.stdout
    service.ok("graders", "create", key, str(tmp_path / "off.py"))

    some = service.ok("score", key, str(tmp_path / "some.jsonl"))
    none = service.run("score", key, str(tmp_path / "none.jsonl"))

    assert "not applicable" in some
    assert re.search(rf"{key}@1 .* none +2 *$", some, re.M), some
    assert "warning" not in some
    assert none.returncode == 1
    assert "has a score: 2 of 2 outcomes are not applicable" in none.stderr
    batch = json.loads(service.run("batches", "list", "--limit", "1", "--json").stdout)[0]
    assert (batch["errors"], batch["not_applicable"]) == ({}, 2)
    listed = service.run("batches", "list", "--limit", "1").stdout
    assert re.search(r"errors +not applicable +created", listed), listed
    assert re.search(r" none +2 +20\d\d-", listed), listed
    shown = service.run("batches", "show", batch["id"]).stdout
    assert "2 of 2 outcomes  errors: none  not applicable: 2" in shown
    scored = [json.loads(line) for line in service.run("batches", "outcomes", batch["id"]).stdout.splitlines()]
    assert [(one["score"], one["not_applicable"]) for one in scored] == [(None, "no documents")] * 2


def test_what_could_not_be_asked_exits_2(service: Service, half: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n{")
    nobody = service.run("validate", str(half), "--url", "http://127.0.0.1:1")
    stranger = service.run("validate", str(half), "--api-key", "gbx_wrong_key")
    bad_threads = service.run("validate", str(half), "--threads", str(tmp_path / "bad.jsonl"))

    assert [done.returncode for done in (nobody, stranger, bad_threads)] == [2, 1, 2]  # the service refuses a stranger
    assert "no service answers at http://127.0.0.1:1" in nobody.stderr
    assert "line 2" in bad_threads.stderr
    assert all("Traceback" not in done.stderr for done in (nobody, stranger, bad_threads))


def test_a_source_that_is_not_utf_8_names_the_byte(service: Service, tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"x = 1\ny = '\xe9'\n")
    assert "byte 0xe9 in line 2" in service.refused("validate", str(tmp_path / "latin.py"))


def test_a_grader_lives_its_life(service: Service, grader: str, tmp_path: Path) -> None:
    changed = tmp_path / "changed.py"
    changed.write_text(HALF.replace("0.5", "0.75"))

    assert f"{grader}@2" in service.run("graders", "update", grader, str(changed), "--timeout-s", "1").stdout
    service.ok("graders", "update", grader, "--description", "always a half")
    (row,) = [line for line in service.run("graders", "list").stdout.splitlines() if f"{grader}@2" in line]
    assert row.split()[1] == "function"
    assert row.rstrip().endswith("always a half")
    assert service.run("graders", "show", grader, "--source").stdout == changed.read_text()
    shown = json.loads(service.run("graders", "show", grader, "--json").stdout)
    assert [version["timeout_s"] for version in shown["versions"]] == [5.0, 1.0]

    service.ok("graders", "lock", grader)
    assert len(service.refused("graders", "delete", grader).splitlines()) <= 2
    service.ok("graders", "unlock", grader)
    service.ok("graders", "delete", grader)
    service.refused("graders", "show", grader)


def test_a_file_is_scored(service: Service, grader: str, tmp_path: Path) -> None:
    threads, out = tmp_path / "threads.jsonl", tmp_path / "out.jsonl"
    threads.write_bytes(THREADS)

    done = service.ok("score", grader, str(threads), "-o", str(out))

    assert f"{grader}@1" in done
    assert "1 bad_input" in done
    outcomes = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(o["index"], o["score"]) for o in outcomes] == [(0, 0.5), (1, 0.5), (2, None)]
    batch = json.loads(service.run("batches", "list", "--json", "--limit", "1").stdout)[0]["id"]
    again = service.run("score", grader, "--threads-of", batch, "-o", "-")
    assert [json.loads(line)["score"] for line in again.stdout.splitlines()] == [0.5, 0.5, None]


def test_standard_input_is_scored_to_standard_output(service: Service, grader: str) -> None:
    done = service.run("score", f"{grader}@1", "-", "-o", "-", stdin=THREADS)

    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["score"] for line in done.stdout.splitlines()] == [0.5, 0.5, None]
    assert f"{grader}@1" in done.stderr


def test_a_file_that_is_not_there_is_named(service: Service, grader: str, tmp_path: Path) -> None:
    missing = service.run("score", grader, str(tmp_path / "missing.jsonl"))
    closed = service.run("score", grader, "-", "-o", str(tmp_path / "no-folder" / "out.jsonl"), stdin=THREADS)

    assert [done.returncode for done in (missing, closed)] == [2, 2]
    assert "missing.jsonl" in re.sub(r"[\s│]", "", missing.stderr)  # the path may be wrapped
    assert "No such file" in closed.stderr


def test_the_summary_is_there_for_programs(service: Service, grader: str) -> None:
    done = service.run("score", grader, "-", "--json", stdin=THREADS)
    batch = json.loads(done.stdout)
    assert (batch["state"], batch["summary"][0]["mean"]) == ("finished", 0.5)

    assert json.loads(service.run("batches", "show", batch["id"], "--json").stdout)["id"] == batch["id"]
    assert batch["id"] in service.run("batches", "list").stdout
    assert len(service.run("batches", "outcomes", batch["id"], "--after", "0").stdout.splitlines()) == 2
    service.ok("batches", "watch", batch["id"])
    service.ok("batches", "delete", batch["id"])
    service.refused("batches", "show", batch["id"])


def test_an_unknown_grader_and_an_empty_batch_are_refused(service: Service, grader: str) -> None:
    for name, threads in (("no-such-grader", THREADS), (grader, b"")):
        assert "Traceback" not in service.refused("score", name, "-", stdin=threads)


def test_ctrl_c_ends_the_watching_and_not_the_batch(service: Service, tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text("import time\nasync def grade(thread):\n    time.sleep(0.2)\n    return 1.0\n")
    (tmp_path / "threads.jsonl").write_bytes(b'{"completion": "a"}\n' * 100)
    key = f"slow-{uuid4().hex[:8]}"
    service.ok("graders", "create", key, str(slow))

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
    assert "is not over: these are the errors up to" in service.run("batches", "errors", identity).stderr
    assert "is not over: nothing is scored again" in service.run("batches", "retry", identity).stderr
    assert "cancelled" in service.run("batches", "cancel", identity).stdout


def test_a_reader_that_goes_away_is_no_error(service: Service, grader: str) -> None:
    command = f"{sys.executable} -m gradebox score {grader} - -o - | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command],
        env=service.environment | {"GRADEBOX_URL": service.url},
        cwd=ROOT,
        input=b'{"completion": "a"}\n' * 3_000,  # the outcomes do not fit into the pipe
        capture_output=True,
        timeout=60,
    )
    assert len(done.stdout.splitlines()) == 1
    assert b"Traceback" not in done.stderr


def test_keys_are_made_and_revoked(service: Service) -> None:
    service.ok("projects", "create", "cli-team")
    assert "cli-team" in service.run("projects", "list").stdout
    key = service.run("keys", "create", "by command", "--covers", "cli-team").stdout.strip()
    wide = service.run("keys", "create", "wide", "--covers", "cli-team", "--every-project")
    assert (wide.returncode, wide.stdout) == (2, "")

    service.ok("graders", "list", "--project", "cli-team", "--api-key", key)
    service.refused("graders", "list", "--api-key", key)
    listed = json.loads(service.run("keys", "list", "--json").stdout)
    made = next(each for each in listed if each["name"] == "by command")
    who = json.loads(service.run("keys", "whoami", "--api-key", key, "--json").stdout)
    assert (who["id"], who["projects"], who["role"], who["secret"]) == (made["id"], ["cli-team"], "manage", None)
    assert made["id"] in service.run("keys", "whoami", "--api-key", key).stdout
    service.ok("keys", "revoke", made["id"])
    service.refused("graders", "list", "--project", "cli-team", "--api-key", key)


def test_limits_of_a_project_are_set_and_reset(service: Service) -> None:
    service.ok("projects", "create", "limited")
    shown = service.run("projects", "limits", "limited", "--batch-threads", "5000000", "--timeout-s", "0.5").stdout
    rows = {cells[0]: cells[1:] for line in shown.splitlines() if (cells := line.split())}
    assert rows["batch_threads"] == ["5,000,000", "1,000,000", "yes"]
    assert (rows["timeout_s"], rows["score_mb"]) == (["0.5", "120", "yes"], ["16", "16", "no"])
    own = json.loads(service.run("projects", "limits", "limited", "--json").stdout)["own"]
    assert own == ["batch_threads", "timeout_s"]
    assert "65, and must be at most 64" in service.refused("projects", "limits", "limited", "--score-mb", "65")
    service.refused("projects", "limits", "limited", "--reset", "--score-mb", "1", code=2)
    projects = service.client().projects
    with pytest.raises(TypeError, match=r"batch_thread= is no option of a project's limits: pass one of source_bytes="):
        projects.set_limits("limited", batch_thread=5)  # type: ignore[call-arg]  # misspelt
    assert projects.limits("limited").own == own
    service.ok("projects", "limits", "limited", "--reset")
    assert projects.limits("limited").limits == projects.limits("limited").defaults


def test_help_is_quick() -> None:
    before = os.times()
    subprocess.run([sys.executable, "-m", "gradebox", "--help"], cwd=ROOT, check=True, capture_output=True)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    assert used < 1.0  # an idle machine needs 0.2 s of processor time
    loaded = "import gradebox.cli; print(sorted({'httpx', 'pydantic', 'rich.progress'} & sys.modules.keys()))"
    assert printed(loaded) == "[]\n"


READS = 'async def grade(thread):\n    return float(thread.metadata["n"])\n'


@pytest.fixture
def reads(service: Service, tmp_path: Path) -> str:
    (tmp_path / "reads.py").write_text(READS)
    (tmp_path / "one.jsonl").write_text('{"completion": "", "metadata": {"n": 1}}\n' * 1200)
    key = f"reads-{uuid4().hex[:8]}"
    made = service.run("graders", "create", key, str(tmp_path / "reads.py"), "--threads", str(tmp_path / "one.jsonl"))
    assert made.returncode == 0, made.stderr
    assert "the test run takes the first 1,000 threads in" in made.stderr
    return key


def test_versions_are_replaced_compared_and_shown(service: Service, grader: str, half: Path) -> None:
    assert "no version 2" in service.run("graders", "diff", grader, "1", "2").stderr
    assert "are equal" in service.run("graders", "diff", grader).stderr
    taken = service.run("graders", "create", grader, str(half)).stderr
    assert "already: for a new version use" in taken
    assert "`gradebox graders create --replace` or `gradebox graders update`" in taken
    half.write_text(HALF.replace("0.5", "0.25"))

    replaced = service.run("graders", "create", grader, str(half), "--replace")

    assert replaced.stdout.startswith(f"kept {grader}@2")
    diff = service.run("graders", "diff", grader).stdout.splitlines()
    assert diff[:2] == [f"--- {grader}@1", f"+++ {grader}@2"]
    assert diff[-2:] == ["-    return 0.5", "+    return 0.25"]
    service.ok("graders", "update", grader, "--timeout-s", "9", "--isolation", "batch")
    assert service.run("graders", "diff", grader).stdout == "isolation_asked: auto -> batch\ntimeout_s: 5 -> 9\n"
    told = json.loads(service.run("graders", "diff", grader, "--json").stdout)
    assert told["settings"]["timeout_s"] == {"old": 5.0, "new": 9.0}
    assert service.run("graders", "show", f"{grader}@1", "--source").stdout == HALF
    service.refused("graders", "show", f"{grader}@x", code=2)
    renamed = service.run("graders", "update", grader, "--name", "x", "--if-version", "1")
    assert (renamed.returncode, "--if-version is for a new version" in renamed.stderr) == (2, True)


def test_rows_are_scored_by_graders_with_weights(service: Service, grader: str, reads: str, tmp_path: Path) -> None:
    rows = "".join(json.dumps({"said": "a", "n": number}) + "\n" for number in range(3))
    (tmp_path / "rows.jsonl").write_text(rows + '{"said": "a"}\n{"said": "a"}\n')

    weighted = f"{grader}=2,{reads}@1=0.5"
    done = service.run("score", weighted, str(tmp_path / "rows.jsonl"), "--column", "said=completion")

    assert done.returncode == 0, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.strip().startswith("combined") and "exception" in line]
    assert row.split()[:3] == ["combined", "5", "1.5"]
    assert f"exception of {reads}@1, first at thread 3: KeyError: 'n'" in done.stderr
    batch = done.stderr.split("gradebox batches errors ")[1].split()[0]
    found = json.loads(service.run("batches", "errors", batch, "--json").stdout)
    errors = [(each["grader"], each["kind"], each["count"]) for each in found["errors"]]
    assert errors == [(f"{reads}@1", "exception", 2)]
    assert found["errors"][0]["first"] == {"index": 3, "id": None, "stdout": None}
    assert found["left_out"] == 0
    assert "KeyError" in service.run("batches", "errors", batch).stdout
    assert json.loads(service.run("batches", "show", batch, "--json").stdout)["combined"]["scored"] == 3
    plain = service.run("score", f"{grader},{reads}@1", "--threads-of", batch).stdout
    assert "weighted sum of the means: 1.5 (each mean is of the completions that its grader scored)" in plain
    assert json.loads(service.run("batches", "errors", batch, "--kind", "crash", "--json").stdout)["errors"] == []
    assert "is one of exception, " in service.run("batches", "errors", batch, "--kind", "exeption").stderr
    of_reads = ("batches", "table", batch, "--grader", f"{reads}@1")
    page = json.loads(service.run(*of_reads, "--sort", "-score", "--limit", "2", "--json").stdout)
    assert (page["total"], len(page["rows"]), page["rows"][0]["completion"]) == (5, 2, "a")
    shown = service.run(*of_reads, "--kind", "exception", "--sort", "-index").stdout.splitlines()
    assert [line.split()[0] for line in shown if "KeyError" in line] == ["4", "3"]
    assert shown[-1] == f"{reads}@1: page 1 of 1, 2 outcomes"
    (group,) = [line for line in service.run(*of_reads, "--errors").stdout.splitlines() if "exception" in line]
    assert group.split()[:2] == ["exception", "2"]
    assert group.split()[-2:] == ["3,", "4"]
    assert json.loads(service.run(*of_reads, "--errors", "--json").stdout)["total"] == 2
    assert "is one of scored" in service.run(*of_reads, "--kind", "nothing").stderr
    assert "can only be combined with --grader" in service.run(*of_reads, "--errors", "--low", "1").stderr
    assert len(service.run("batches", "outcomes", batch, "--limit", "2").stdout.splitlines()) == 6
    reader = service.run("keys", "create", "reader", "--role", "read").stdout.strip()
    over = service.run("batches", "cancel", batch, "--api-key", reader)
    assert (over.returncode, over.stderr) == (0, f"batch {batch} is already finished\n")
    assert "nothing is scored again" in service.run("batches", "retry", batch).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["has=x"], "a weight is a number, as in has=0.5"),
        (["has=,is=0.3"], "a weight is a number, as in has=0.5"),
        (["has=0.7,is,has=0.2"], "the grader 'has' is named twice: name it once, with one weight"),
        (["has", "--column", "said"], "write NAME=MEMBER"),
        (["has", "--column", "a=prompt", "--column", "a=id"], "the column 'a' is named twice"),
        (["has", "--column", "said=reply"], "and no 'reply'"),
        (["has", "--detach", "-o", "x"], "does not wait for outcomes"),
        (["has", "-o", "/"], "cannot be written: Is a directory"),
        (["has", "-o", "threads.jsonl"], "is the file of the threads, which the outcomes would overwrite"),
        (["has", "--threads-of", "batch"], "name a file of threads, or a batch"),
    ],
)
def test_what_cannot_be_scored_is_said_first(service: Service, tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "threads.jsonl").write_bytes(THREADS)

    arguments = [str(tmp_path / one) if one == "threads.jsonl" else one for one in arguments]
    done = service.refused("score", arguments[0], str(tmp_path / "threads.jsonl"), *arguments[1:], code=2)

    assert (tmp_path / "threads.jsonl").read_bytes() == THREADS
    assert said in " ".join(done.replace("│", " ").split())


def test_a_file_without_one_thread_is_no_success(service: Service, grader: str, tmp_path: Path) -> None:
    (tmp_path / "threads.csv").write_text("prompt,completion\nq,4\n")
    (tmp_path / "threads.json").write_text('[{"completion": "4"}]')

    scored = service.run("score", grader, str(tmp_path / "threads.csv"))
    refused = service.run("score", grader, str(tmp_path / "threads.json"))

    assert (scored.returncode, refused.returncode) == (1, 2)
    assert "bad_input, first at thread 0: the line is not JSON" in scored.stderr
    assert "no line of" in scored.stderr
    assert "The file begins with 'prompt,completion', and each line must be a JSON object" in scored.stderr
    assert "threads.json: the file of threads is one JSON array" in refused.stderr


def test_rows_without_columns_are_told_of_the_option(service: Service, grader: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "2+2?", "answer": "4"}\n')

    scored = service.refused("score", grader, str(tmp_path / "rows.jsonl"))

    assert "this object has question, answer: if it is a row of a dataset, map its columns" in scored
    assert "or --column response=completion in the shell" in scored
    assert scored.endswith("rows.jsonl is a thread\n")


def test_rows_are_threads_of_a_test_run(service: Service, tmp_path: Path) -> None:
    (tmp_path / "reads.py").write_text('async def grade(thread): return float(thread.metadata["gold"])\n')
    (tmp_path / "rows.jsonl").write_text('{"prompt": "q", "response": "4", "gold": 1}\n')
    key, reads = f"rows-{uuid4().hex[:8]}", str(tmp_path / "reads.py")
    threads = ("--threads", str(tmp_path / "rows.jsonl"), "--column", "response=completion")

    created = service.run("graders", "create", key, reads, *threads)
    updated = service.run("graders", "update", key, "--timeout-s", "3", *threads)
    validated = service.run("validate", reads, *threads)
    alone = service.run("validate", reads, *threads[2:])

    assert [done.returncode for done in (created, updated, validated, alone)] == [0, 0, 0, 2], created.stderr
    assert "name the file of rows with --threads" in alone.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"prompt": "q", "response": "4"}', "this object has prompt, response: if it is a row of a dataset"),
        ('{"completion": "4", "metadata": "x"}', '"metadata" must be an object, and is a string'),
        ('{"completion": "4", "metadata": {"n": NaN}}', "cannot be sent as JSON"),
    ],
)
def test_a_test_thread_that_is_none_is_one_line(
    service: Service, half: Path, tmp_path: Path, line: str, said: str
) -> None:
    path = tmp_path / "threads.jsonl"
    path.write_text(f'{{"completion": "a"}}\n{line}\n')
    for command in (["graders", "create", "never"], ["graders", "update", "never"], ["validate"]):
        done = service.refused(*command, str(half), "--threads", str(path), code=2)
        assert done.startswith(f"gradebox: {path}: thread 1 ")
        assert said in done
        assert len(done.splitlines()) == 1


def test_a_batch_that_is_not_waited_for_is_found_in_its_project(
    service: Service, grader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "threads.jsonl").write_bytes(THREADS)

    batch = service.run("score", grader, str(tmp_path / "threads.jsonl"), "--detach").stdout.strip()

    service.ok("batches", "watch", batch)
    monkeypatch.setitem(service.environment, "GRADEBOX_PROJECT", "no-such")
    assert "no project 'no-such'" in service.run("batches", "show", batch).stderr


def test_a_terminal_is_asked_before_a_grader_is_deleted(service: Service, grader: str) -> None:
    command = [sys.executable, "-m", "gradebox", "graders", "delete", grader]
    for answer, code in (b"n\n", 1), (b"y\n", 0):
        ours, its = os.openpty()
        os.write(ours, answer)
        environment = service.environment | {"GRADEBOX_URL": service.url}
        done = subprocess.run(command, env=environment, cwd=ROOT, stdin=its, capture_output=True, timeout=60)
        os.close(ours)
        os.close(its)
        assert done.returncode == code, done.stderr
        assert f"delete {grader} with all of its versions?".encode() in done.stderr


def test_graders_go_from_one_project_to_another(service: Service, tmp_path: Path) -> None:
    first, second = (f"moved-{uuid4().hex[:8]}" for _ in range(2))
    (tmp_path / "half.py").write_text(HALF)
    (tmp_path / "reads.py").write_text('async def grade(thread): return float(thread.metadata["answer"] == "4")\n')
    (tmp_path / "threads.jsonl").write_bytes(b'{"completion": "a", "metadata": {"answer": "4"}}\n')
    proof = ["--threads", str(tmp_path / "threads.jsonl"), "--timeout-s", "2", "--description", "reads"]
    service.run("graders", "create", first, str(tmp_path / "reads.py"), *proof)
    service.run("graders", "create", second, str(tmp_path / "half.py"))
    (tmp_path / "half.py").write_text(HALF.replace("0.5", "0.25"))
    service.run("graders", "update", second, str(tmp_path / "half.py"), "--isolation", "completion")
    mapped = service.run("graders", "weave", first, "--completion", "output.answer", "--prompt", "inputs.question")
    other = f"other-{uuid4().hex[:8]}"
    service.run("projects", "create", other)
    file = str(tmp_path / "graders.jsonl")

    service.ok("graders", "export", first, second, "--all-versions", "-o", file)
    made = service.run("graders", "import", file, "--project", other)
    again = service.run("graders", "import", file, "--project", other)
    newest = service.run("graders", "export", second, "--project", other)
    piped = service.run("graders", "import", "-", "--replace", "--project", other, stdin=newest.stdout.encode())
    bad = service.run("graders", "import", str(tmp_path / "half.py"))
    odd = json.dumps({"key": f"odd-{first}", "versions": [{"source": HALF}], "threads": [5]})
    refused = service.run("graders", "import", "-", stdin=odd.encode())

    assert made.stdout.split() == [f"{first}@1", f"{second}@2"], made.stderr
    assert again.returncode == 1
    assert "2 of 2 graders could not be created" in again.stderr
    assert [version["source"] for version in json.loads(newest.stdout)["versions"]] == [HALF.replace("0.5", "0.25")]
    assert piped.stdout.split() == [f"{second}@2"]
    assert (bad.returncode, "line 1 of" in bad.stderr) == (2, True)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"odd-{first}: thread 0 is no thread")
    shown = json.loads(service.run("graders", "show", first, "--project", other, "--json").stdout)
    assert (shown["grader"]["test_threads"], shown["grader"]["timeout_s"]) == (1, 2.0)
    assert shown["grader"]["description"] == "reads"
    mapping = {"completion": "output.answer", "prompt": "inputs.question", "metadata": None}
    assert (mapped.returncode, shown["grader"]["weave"]) == (0, mapping)
    assert "completion from output.answer" in service.run("graders", "show", first, "--project", other).stdout
    more = service.run("graders", "weave", first, "--metadata", "inputs.row")
    seen = service.run("graders", "weave", first)
    told = "completion from output.answer, prompt from inputs.question, metadata from inputs.row"
    assert seen.stdout == more.stdout == f"calls of Weave: {told}\n"
    cleared = service.run("graders", "weave", first, "--clear", "--prompt", "inputs.q")
    told = "completion by default, prompt from inputs.q, metadata by default"
    assert told in cleared.stdout


def test_graders_that_others_ask_are_imported_first(service: Service, tmp_path: Path) -> None:
    suffix = uuid4().hex[:8]
    asked, asking, other = f"b-{suffix}", f"a-{suffix}", f"ask-{suffix}"
    (tmp_path / "half.py").write_text(HALF)
    (tmp_path / "asks.py").write_text(
        f"from gradebox import Grader\nhalf = Grader({asked!r})\nasync def grade(thread): return await half(thread)\n"
    )
    service.run("graders", "create", asked, str(tmp_path / "half.py"))
    service.run("graders", "create", asking, str(tmp_path / "asks.py"))
    service.run("projects", "create", other)

    file = service.run("graders", "export", asking, asked).stdout
    made = service.run("graders", "import", "-", "--project", other, stdin=file.encode())

    assert made.stdout.split() == [f"{asked}@1", f"{asking}@1"], made.stderr
    assert service.run("graders", "export", asked, asked).stdout.count("\n") == 1


def test_a_key_is_rotated_and_a_lost_one_replaced(service: Service, tmp_path: Path) -> None:
    first = service.key
    scorer = json.loads(service.run("keys", "create", "scorer", "--role", "score", "--json").stdout)
    rotated = json.loads(service.run("keys", "rotate", scorer["id"], "--json").stdout)
    assert (rotated["name"], rotated["role"], rotated["projects"]) == ("scorer", "score", ["default"])
    service.ok("graders", "list", "--api-key", rotated["secret"])
    service.refused("graders", "list", "--api-key", scorer["secret"])
    assert "no valid API key" in service.run("keys", "rotate", scorer["id"]).stderr

    command = ["sh", "-c", 'ulimit -f 0; exec "$@"', "-", sys.executable, "-m", "gradebox", "keys", "rotate"]
    variables = service.environment | {"GRADEBOX_URL": service.url}
    full = subprocess.run([*command, first.split("_")[1]], env=variables, cwd=ROOT, capture_output=True, text=True)
    assert full.returncode == 2 and "File too large" in full.stderr
    first = full.stdout.strip()  # no other key manages keys
    (service.data_dir / "api-key").write_text(first)

    own = service.ok("keys", "rotate", first.split("_")[1]).strip()
    assert service.key == own != first
    service.ok("keys", "list")
    with service.client() as client:
        again = client.keys.rotate(service.key.split("_")[1])
        assert client.keys.list()[-1].id == again.id  # the client uses the new key

    (service.data_dir / "api-key").unlink()
    service.refused("keys", "list")
    service.ok("keys", "recover", "--data-dir", str(service.data_dir))
    service.refused("keys", "recover", "--data-dir", str(tmp_path / "none"), code=2)
    os.kill(one(service.process.pid, "-m api"), signal.SIGKILL)  # it reads the new key when it starts again
    eventually((service.data_dir / "api-key").exists)
    service.ok("keys", "list")


def test_labels_of_people_are_recorded(service: Service, grader: str, tmp_path: Path) -> None:
    key = f"human-{uuid4().hex[:8]}"
    path = tmp_path / "threads.jsonl"
    path.write_bytes(b"".join(b'{"id": "t%d", "completion": "a"}\n' % n for n in range(4)))
    batch = service.run("score", grader, str(path), "--detach").stdout.strip()
    service.ok("batches", "watch", batch)
    made = service.run("graders", "create", key, "--kind", "custom", "--description", "people")
    assert (made.returncode, made.stdout) == (0, f"created {key}@1\n")
    assert f"--grader {key}" in service.run("graders", "show", key).stdout
    labels = b"".join(b'{"id": "t%d", "score": 0.25}\n' % n for n in range(4))
    recorded = service.ok("batches", "record", batch, "-", "--grader", key, stdin=labels)
    assert [f"{key}@1", "4", "0.25"] in [line.split()[:3] for line in recorded.splitlines()]
    agreed = service.run("agreement", batch, grader, key, "--json")
    assert json.loads(agreed.stdout)["scored"] == 4, agreed.stderr
    refused = service.refused("batches", "record", batch, "-", "--grader", key, stdin=b'{"id": "t9", "score": 1}\n')
    assert "line 1: the batch has no thread with the id 't9'" in refused
    limited = service.run("graders", "create", "crowd", "--kind", "custom", "--timeout-s", "3")
    assert "leave timeout_s out" in limited.stderr


def test_batches_are_compared_and_a_grader_with_labels(service: Service, grader: str, tmp_path: Path) -> None:
    path = tmp_path / "threads.jsonl"
    path.write_bytes(b'{"completion": "a", "metadata": {"label": 0}}\n' * 6)  # of unequal labels SciPy would compute
    batch = service.run("score", grader, str(path), "--detach").stdout.strip()
    service.ok("batches", "watch", batch)

    compared = service.ok("compare", batch, batch)
    assert "difference: 0\n" in compared
    assert "pairs by position, as not both batches have ids: 0 higher, 0 lower, 6 same" in compared
    assert json.loads(service.run("compare", batch, batch, "--json").stdout)["pairs"] == 6
    ids = []
    for name in ("1", '"1"'):
        path.write_text(f'{{"id": {name}, "completion": "a"}}\n')
        ids.append(service.run("score", grader, str(path), "--detach").stdout.strip())
        service.ok("batches", "watch", ids[-1])
    for output in ((), ("--json",)):
        none = service.refused("compare", *ids, *output)
        assert "none of 0 pairs has two scores: rows whose id is a number in one batch and text in" in none
    agreed = service.run("agreement", batch, grader, "metadata.label", "--threshold", "0.5")
    assert agreed.returncode == 0, agreed.stderr
    assert ["kappa", "0"] in [line.split() for line in agreed.stdout.splitlines()]
    assert ["label", "0", "0", "6", "1"] in [line.split() for line in agreed.stdout.splitlines()]
    assert "threshold" not in agreed.stderr
    for output in ((), ("--json",)):
        unusable = service.refused("agreement", batch, grader, "metadata.nope", *output)
        assert unusable == (
            "gradebox: none of 6 rows has a score and a label: metadata.nope is in no thread; they have label\n"
        )
    assert "it has no grader 'label'" in service.refused("agreement", batch, grader, "label")
    service.ok("batches", "show", batch, "--bootstrap")


def test_a_function_is_uploaded_with_its_modules(service: Service, tmp_path: Path) -> None:
    (tmp_path / "my_words").mkdir()
    (tmp_path / "my_words/__init__.py").touch()
    (tmp_path / "my_words/count.py").write_text("def count(text):\n    return len(text.split())\n")
    file = tmp_path / "my_words/graders.py"
    file.write_text(
        "from .count import count\n\n\nclass Options:\n    weight = 1\n\n\nOPTIONS = Options()\n\n\n"
        "async def words(thread):\n    return OPTIONS.weight * count(thread.completion())\n"
    )
    threads = tmp_path / "threads.jsonl"
    threads.write_text('{"completion": "a b c"}\n')
    key = f"words-{uuid4().hex[:8]}"

    service.ok("graders", "create", key, str(file), "--function", "words", "--threads", str(threads))
    assert service.run("score", key, str(threads), "-o", "-").stdout.count('"score":3.0') == 1

    file.write_text(file.read_text() + "\n\nglobals()['OPTIONS'].weight = 2\n")
    report = service.run("validate", str(file), "--function", "words", "--threads", str(threads))
    assert report.returncode == 0
    assert "`grade` returned 3.0" in report.stdout
    assert "warning: words may score differently once it is uploaded: OPTIONS.weight is 2 here" in report.stderr

    for name, said in (("letters", "has no function 'letters'"), ("Options", "Options is a class")):
        assert said in service.refused("graders", "update", key, str(file), "--function", name)
    file.write_text("import sys\nsys.exit(3)\n")
    refused = service.run("graders", "update", key, str(file), "--function", "words")
    assert "graders.py cannot be imported: SystemExit: 3" in refused.stderr
