from benchmarks import timing


def test_a_ratio_is_of_medians_with_quartiles_round_by_round() -> None:
    found = timing.ratio([2.0, 4.0, 6.0], [1.0, 2.0, 2.0])

    assert found.median == 4.0 / 2.0
    assert (found.low, found.high) == (2.0, 2.5)


def test_interleaved_runs_take_turns_in_going_first() -> None:
    order = list[str]()

    def note(name: str) -> float:
        order.append(name)
        return 1.0

    timing.interleaved(2, {"bare": lambda: note("bare"), "layer": lambda: note("layer")})

    assert order == ["bare", "layer", "layer", "bare"]


def test_percentiles() -> None:
    assert timing.percentile(list(range(100)), 99) == 99
    assert timing.percentile([3.0, 1.0, 2.0], 50) == 2.0
