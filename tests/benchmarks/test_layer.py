"""Tests that the compared layer does the same work."""

import asyncio

import pytest

from benchmarks import bare, threads
from benchmarks.layer import Layer
from sandbox.pool.pool import Pool

pytestmark = pytest.mark.sandbox

COUNT = 300


@pytest.mark.parametrize("grader", threads.GRADERS)
def test_the_layer_gives_the_scores_of_bare_python(pool: Pool, grader: str) -> None:
    path = threads.file(COUNT, grader)
    expected = asyncio.run(bare.score(bare.load(grader), path))

    outcomes = Layer(pool, grader, path).score()

    assert [outcome.score for outcome in outcomes] == expected
    assert len(set(expected)) > 1
    assert [outcome.id for outcome in outcomes] == [thread["id"] for thread in threads.some(COUNT, grader)]


@pytest.mark.parametrize(("grader", "silent"), threads.SAYING.items())
def test_graders_that_say_something_give_the_same_scores(pool: Pool, grader: str, silent: str) -> None:
    path = threads.file(COUNT, silent)
    expected = asyncio.run(bare.score(bare.load(silent), path))

    outcomes = Layer(pool, grader, path).score()

    assert [outcome.score for outcome in outcomes] == expected
    if grader == "regex_reason":
        assert {len(outcome.reason or "") for outcome in outcomes} == {40}
    else:
        assert all("of them marked\n" in (outcome.stdout or "") for outcome in outcomes)
