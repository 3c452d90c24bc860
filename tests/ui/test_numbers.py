"""Tests of the numbers on the pages, without a browser."""

import random

import pytest

from gradebox.schemas.comparison import PairCounts
from storage.statistics.summary import BINS, bin_of
from ui.numbers import heat_map


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (0.1, 0.7), (1e-9, 3e9), (0.0, 5e-324)])
def test_a_cell_of_the_heat_map_links_to_the_scores_that_it_counts(low: float, high: float) -> None:
    row = heat_map(PairCounts(low=low, high=high, counts=[[1] * BINS] * BINS))[0]
    chance = random.Random(1)
    edges = [score for cell in row for score in (cell.low, cell.high)]
    scores = [*edges, *(low + (high - low) * number / 20 for number in range(21))]
    scores += [chance.uniform(low, high) for _ in range(1000)]
    for score in scores:
        if low <= score <= high:
            assert [at for at, cell in enumerate(row) if cell.low <= score <= cell.high] == [bin_of(score, low, high)]
