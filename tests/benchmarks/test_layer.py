"""What is compared must do the same work."""

import asyncio

import pytest

from benchmarks import bare, threads
from benchmarks.layer import Layer, cut
from sandbox.pool import Pool

pytestmark = pytest.mark.sandbox

COUNT = 300


@pytest.mark.parametrize("grader", threads.GRADERS)
def test_the_layer_gives_the_scores_of_bare_python(pool: Pool, grader: str) -> None:
    path = threads.file(COUNT, grader)
    expected = asyncio.run(bare.score(bare.load(grader), path))

    outcomes = Layer(pool, grader).score(path, cut(path))

    assert [outcome.score for outcome in outcomes] == expected
    assert len(set(expected)) > 1
