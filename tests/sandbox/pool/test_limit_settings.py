"""Tests that the limits inside a sandbox are those of the settings."""

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from gradebox.outcome import Outcome
from sandbox.backends.docker.policy import Container
from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool, open_pool
from sandbox.settings import SandboxSettings
from tests.sandbox.scoring import line, score

_SOURCE = """
import threading, time
from gradebox import Score

async def grade(thread):
    what, size = thread.completion().split()
    if what == "threads":
        threading.stack_size(1 << 18)  # stacks count as memory
        wait = threading.Event()
        threads = [threading.Thread(target=wait.wait, daemon=True) for _ in range(int(size))]
        try:
            for one in threads:
                one.start()
        finally:
            wait.set()
    if what == "files":
        for number in range(int(size)):
            open(f"/tmp/{number}", "w").close()
        time.sleep(0.2)  # for the supervisor to count them
    if what == "error":
        raise ValueError("x" * int(size))
    return Score(1.0, reason="x" * int(size) if what == "reason" else "")
"""


@pytest.fixture(scope="module")
def raised() -> Iterator[Pool]:
    """A pool whose sandboxes are given more than by default."""
    settings = SandboxSettings(processes=40, scratch_files=2000, text_bytes=16 * 1024, line_depth=201, warm_sandboxes=0)
    with open_pool(settings) as opened:
        yield opened


def _scored(pool: Pool, completion: str) -> Outcome:
    return score(pool, GraderSource(_SOURCE, "completion"), [line(completion)])[0]


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("is_raised", "fits", "too_much", "told"),
    [
        (False, "threads 32", "threads 33", "can't start new thread. A grader has at most 32 processes and threads"),
        (True, "threads 40", "threads 41", "can't start new thread. A grader has at most 40 processes and threads"),
        (False, "files 900", "files 1025", "more than 1024 files in /tmp"),
        (True, "files 1025", "files 2001", "more than 2000 files in /tmp"),
    ],
)
def test_what_exceeds_a_limit_of_a_sandbox_is_told_with_it(
    is_raised: bool, fits: str, too_much: str, told: str, pool: Pool, raised: Pool
) -> None:
    limited = raised if is_raised else pool
    assert _scored(limited, fits).score == 1.0
    assert told in str(_scored(limited, too_much).error)


@pytest.mark.sandbox
def test_a_thread_is_nested_as_deep_as_the_setting_says(pool: Pool, raised: Pool) -> None:
    def errors(of: Pool, *levels: int) -> list[str]:
        lines = [b'{"completion": "reason 1", "metadata": {"a": %b1%b}}' % (b"[" * n, b"]" * n) for n in levels]
        return [one.error.message if one.error else "" for one in score(of, GraderSource(_SOURCE), lines)]

    # The thread and its metadata are two of the levels.
    assert errors(pool, 62, 63) == ["", "the line is nested more than 64 levels deep"]
    assert errors(raised, 199, 200) == ["", "the line is nested more than 201 levels deep"]


@pytest.mark.sandbox
def test_texts_of_outcomes_and_checks_are_kept_up_to_the_setting(pool: Pool, raised: Pool) -> None:
    def lengths(of: Pool) -> list[int]:
        reason, error = _scored(of, "reason 10240").reason, _scored(of, "error 10240").error
        failed = of.prove(GraderSource("raise ValueError('x' * 10240)\nasync def grade(thread): ...")).failed
        assert reason and error and failed and failed.traceback
        return [text.count("x") for text in (reason, error.message, failed.message, failed.traceback)]

    assert lengths(raised)[:3] == [10240] * 3
    assert lengths(raised)[3] > 10240
    assert max(lengths(pool)) <= 4096 + 10


def test_a_container_is_given_what_the_settings_say() -> None:
    host = Container("", 1000, "-", None, "", 1.0, 1 << 20, 2000, 40, {}).config()["HostConfig"]
    assert host["PidsLimit"] == 43
    assert "nr_inodes=4000" in host["Tmpfs"]["/tmp"]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("PROCESSES", "65", "less than or equal to 64"),
        ("SCRATCH_FILES", "16385", "less than or equal to 16384"),
        ("TEXT_BYTES", "16385", "less than or equal to 16384"),
        ("TEXT_BYTES", "255", "greater than or equal to 256"),
        ("LINE_DEPTH", "15", "greater than or equal to 16"),
        ("LINE_DEPTH", "202", "less than or equal to 201"),
    ],
)
def test_no_limit_exceeds_its_maximum(monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str) -> None:
    monkeypatch.setenv(f"GRADEBOX_{name}", value)
    with pytest.raises(ValidationError, match=told):
        SandboxSettings()
