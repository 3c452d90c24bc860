"""Fixtures for the tests of every backend.

Each test runs with each line of `tests.backends.VARIANTS`, or with the variants that its module lists as `VARIANTS`.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest

from gradebox.limits import LINE_BYTES
from gradebox.outcome import Outcome
from gradebox.schemas import Isolation
from sandbox.backends.base import Backend
from sandbox.grader_source import GraderSource
from sandbox.grading.grading import Grading
from sandbox.grading.session import Session
from sandbox.hostile.watched import Watched
from sandbox.limits import STDOUT_BYTES, limits_of
from tests.backends import VARIANTS, backend_of, settings_for

# Executes a completion, and returns its `answer` as the reason.
GRADER = """
import json
from gradebox import Score

async def grade(thread):
    names = {}
    exec(thread.completion(), names)
    return Score(1.0, reason=json.dumps(names.get("answer")))
"""

# Each process stays within a limit of 96 MiB; together they exceed it.
TOGETHER = """
import mmap, os, time
for number in range(4):
    if not os.fork():
        held = bytearray(60 << 20)
        for at in range(0, len(held), 4096): held[at] = 1
        time.sleep(30)
        os._exit(0)
os.wait()
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        variants = getattr(metafunc.module, "VARIANTS", tuple(VARIANTS))
        metafunc.parametrize("backend", variants, indirect=True, scope="package")


@pytest.fixture(scope="package")
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Yields one backend. Fails after the last test of this folder if anything that it started is left."""
    with pytest.MonkeyPatch.context() as patch:
        temporary = tmp_path_factory.mktemp("contract")
        patch.setattr(tempfile, "tempdir", str(temporary))
        patch.setenv("CANARY_SECRET", "s3cr3t-canary")
        watched = Watched(backend_of(request.param)(settings_for(request.param)))
        with closing(watched):
            yield watched
            left = watched.left()
        assert left == []
        assert list(temporary.iterdir()) == []


@contextmanager
def started(backend: Backend) -> Iterator[Session]:
    """One empty sandbox, which is ended."""
    session = Session(backend.start())
    try:
        yield session
    finally:
        session.end()


@pytest.fixture
def session(backend: Watched) -> Iterator[Session]:
    """One empty sandbox."""
    with started(backend) as opened:
        yield opened


class Grader:
    """A grader that stays loaded in one sandbox."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def load(self, text: str = GRADER, isolation: Isolation = "completion", **limits: Any) -> "Grader":
        source = GraderSource(text, isolation, **{"timeout_s": 5.0, **limits})
        loaded = self.session.load(source, limits_of(source, 10.0, LINE_BYTES, STDOUT_BYTES))
        assert loaded.isolation is not None, loaded
        return self

    def score(self, *completions: str) -> list[Outcome]:
        """The outcome of each completion. Fails if the sandbox ends."""
        return self.score_threads([{"completion": completion} for completion in completions])

    def score_threads(self, threads: Sequence[object]) -> list[Outcome]:
        """The same for whole threads."""
        payload = b"\n".join(json.dumps(thread).encode() for thread in threads)
        grading = Grading(lambda _: self.session, lambda _, why: pytest.fail(f"the sandbox ended: {why}"))
        return grading.score(payload, 0, "contract@1")

    def ask(self, code: str) -> Any:
        """The `answer` that `code` computes."""
        (outcome,) = self.score(code)
        assert outcome.reason is not None, outcome
        return json.loads(outcome.reason)


Loads = Callable[..., Grader]


@pytest.fixture
def grader(session: Session) -> Grader:
    """A grader that executes completions in the sandbox."""
    return Grader(session).load()


@pytest.fixture
def loads(session: Session) -> Loads:
    """Loads a grader with other source or limits."""
    return Grader(session).load
