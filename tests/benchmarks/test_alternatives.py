"""Tests that the alternatives to gradebox do the same work."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from benchmarks import alternatives, bare, containers, threads
from benchmarks.results import Results
from tests.backends import NEEDED

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

COUNT = 30


def test_every_way_gives_the_scores_of_bare_python() -> None:
    path = threads.file(COUNT)
    expected = asyncio.run(bare.score(bare.load("regex"), path))
    lines = path.read_bytes()
    results = Results({})

    with alternatives.ways(results) as ways:
        found = {name: grade(lines) for name, grade in ways.items()}
        one = {name: grade(lines.splitlines(keepends=True)[0]) for name, grade in ways.items()}

    assert found == dict.fromkeys(found, expected)
    assert one == dict.fromkeys(one, expected[:1])
    assert len(set(expected)) > 1
    why = containers.why_none()
    assert len(found) == (2 if why else 4), results.skipped
    assert "docker" not in NEEDED or not why
    if why:
        assert results.skipped == [f"docker run, llm-sandbox: {why}"]
    else:
        assert results.skipped == []
        assert "gradebox-benchmark" not in subprocess.run(["docker", "images"], capture_output=True, text=True).stdout


def test_without_an_engine_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    results = Results({})

    with alternatives.ways(results) as ways:
        assert "docker run" not in ways

    assert results.skipped == [f"docker run, llm-sandbox: {containers.why_none()}"]
