from typing import Any

import msgspec
import pytest

from gradebox.outcome import CompletionScore, Outcome, OutcomeError, Spent, with_completion_scores
from storage.statistics.outcome_tally import MOST_NAMES, MOST_OPTIONS, OPTION_CHARACTERS, merged, pack, tally, unpack
from storage.statistics.reward_warnings import concerns
from storage.statistics.summary import summarise
from tests.storage.making import failed, passed_over


def scored(*scores: float) -> list[Outcome]:
    return [Outcome(index, "g@1", score, 2.0) for index, score in enumerate(scores)]


def named(index: int, **values: float) -> Outcome:
    return Outcome(index, "g@1", 0.5, 2.0, values=values)


def test_values_are_counted_by_name_whichever_way_they_are_merged() -> None:
    outcomes = [named(0, format=1.0, length=0.2), named(1, format=0.0), named(2, length=0.4), *scored(1.0)]
    whole = tally(outcomes)
    parts = merged([unpack(pack(tally(outcomes[:1]))), tally(outcomes[1:3]), tally(outcomes[3:])])
    for counted in (whole, parts):
        found = {name: (one.count, one.mean, one.minimum, one.maximum) for name, one in counted.named.items()}
        assert found == {"format": (2, 0.5, 0.0, 1.0), "length": (2, pytest.approx(0.3), 0.2, 0.4)}
    assert outcomes[0].values == {"format": 1.0, "length": 0.2}


def test_names_beyond_the_first_are_left_out_and_counted() -> None:
    parts = [tally([named(number, **{f"name{number}": 1.0})]) for number in range(MOST_NAMES + 3)]
    total = merged(parts)
    assert list(total.named) == [f"name{number}" for number in range(MOST_NAMES)]
    assert total.left_out == 3


def test_merging_changes_no_part() -> None:
    part = tally([named(0, format=1.0)])
    merged([part, tally([named(0, format=0.0)])])
    assert part.named["format"].mean == 1.0


def test_a_tally_of_an_earlier_release_is_read() -> None:
    old = msgspec.msgpack.encode([2, 2, 0.5, 0.5, 0.0, 1.0, 4.0, {}, {0.0: 1, 1.0: 1}])
    counted = unpack(old)
    assert (counted.scored, counted.unanswered, counted.named, counted.spent) == (2, 0, {}, None)


def optioned(index: int, score: float, option: object) -> Outcome:
    return Outcome(index, "g@1", score, 2.0, details={"option": option})


_AGAIN = OutcomeError("timeout", "it got little processor time", retryable=True)


def paid(spent: Spent) -> Outcome:
    return Outcome(0, "g@1", 0.5, 2.0, spent=spent)


@pytest.mark.parametrize(
    ("outcomes", "counts"),
    [
        ([*scored(1.0), Outcome(1, "g@1", 0.0, 2.0, no_completion=True), failed(2, "g@1")], {"unanswered": 1}),
        (
            [*scored(1.0), passed_over(1, "g@1"), passed_over(2, "g@1"), failed(3, "g@1")],
            {"count": 4, "scored": 1, "not_applicable": 2, "errors": {"exception": 1}},
        ),
        (
            [paid(Spent(2, 1, 100, 10, 0.25)), *scored(1.0), paid(Spent(1, 0, 50, 5, 0.5))],
            {"spent": Spent(3, 1, 150, 15, 0.75)},
        ),
        (scored(1.0), {"spent": None, "options": {}, "not_applicable": 0, "unanswered": 0}),
        (
            [optioned(0, 1.0, "a"), optioned(1, 0.0, "b"), optioned(2, 1.5, "a"), *scored(0.999), failed(4, "g@1")],
            {"passed": 2, "options": {"a": 2, "b": 1}, "options_left_out": 0},
        ),
        (
            [*scored(1.0), failed(1, "g@1"), *[Outcome(n, "g@1", None, 2.0, error=_AGAIN) for n in (2, 3)]],
            {"errors": {"exception": 1, "timeout": 2}, "retryable": 2},
        ),
    ],
)
def test_counts_are_the_same_whichever_way_they_are_merged(outcomes: list[Outcome], counts: dict[str, object]) -> None:
    parts = merged([unpack(pack(tally(outcomes[:1]))), unpack(pack(tally(outcomes[1:2]))), tally(outcomes[2:])])
    for counted in (tally(outcomes), parts):
        assert {name: getattr(counted, name) for name in counts} == counts


def contest(against: object, biased: object) -> dict[str, Any]:
    return {"against": against, "won": True, "biased": biased}


def test_decisions_that_differ_between_the_orders_are_counted_once() -> None:
    told: list[object] = [True, False, None, "yes"]
    outcomes = [
        Outcome(n, "g@1", 1.0, 2.0, details={"positional_bias": {"detected": detected}})
        for n, detected in enumerate(told)
    ]
    outcomes += [Outcome(4, "g@1", 1.0, 2.0, details={"positional_bias": [1]}), *scored(1.0)]
    contests = [
        [contest([2], True), contest([3], False), contest(None, True), contest(["2"], True), 7],
        [contest([1], True), contest([3], True)],
        [contest([1], False), contest([2], True)],
    ]
    scores = [CompletionScore(0.5, details={"contests": each}) for each in contests]
    scores += [CompletionScore(0.0), CompletionScore(1.0, details={})]
    outcomes += [with_completion_scores(Outcome(5, "g@1", 0.5, 2.0), scores)]
    for counted in (tally(outcomes), unpack(pack(merged(tally([one]) for one in outcomes)))):
        assert (counted.bias_checked, counted.bias_detected) == (5, 3)
    found = summarise("g@1", 1.0, tally(outcomes))
    assert found.positional_bias is not None
    assert (found.positional_bias.checked, found.positional_bias.detected) == (5, 3)
    plain = summarise("g@1", 1.0, tally(scored(1.0)))
    assert (plain.positional_bias, plain.retryable) == (None, 0)


def test_options_beyond_the_first_and_long_ones_are_left_out_and_what_is_no_text_is_none() -> None:
    outcomes = [optioned(number, 1.0, f"option{number}") for number in range(MOST_OPTIONS + 3)]
    outcomes += [optioned(99, 1.0, "x" * (OPTION_CHARACTERS + 1)), optioned(100, 1.0, 7)]
    for counted in (tally(outcomes), merged(tally([one]) for one in outcomes)):
        assert list(counted.options) == [f"option{number}" for number in range(MOST_OPTIONS)]
        assert counted.options_left_out == 4


@pytest.mark.parametrize(("fields", "name"), [(13, "passed"), (18, "retryable")])
def test_a_count_is_unknown_where_an_earlier_version_counted_a_part(fields: int, name: str) -> None:
    outcomes = [*scored(1.0), failed(1, "g@1")]
    earlier = unpack(msgspec.msgpack.encode(msgspec.msgpack.decode(pack(tally(outcomes)))[:fields]))
    assert (earlier.scored, getattr(earlier, name)) == (1, None)
    assert getattr(merged([tally(outcomes), earlier, tally(scored(0.0))]), name) is None
    assert getattr(summarise("g@1", 1.0, merged([tally(outcomes), earlier])), name) is None


def test_equal_scores_have_no_spread_and_are_their_mean() -> None:
    parts = [tally(scored(*[0.1] * count)) for count in (3, 7, 11)]
    for counted in (*parts, merged(parts)):
        assert (counted.mean, counted.m2) == (0.1, 0.0)
    assert summarise("g@1", 1.0, merged(parts)).interval is None


def test_win_rates_are_no_reward_that_never_differs() -> None:
    """The mean of win rates is one half in every group."""

    def group(index: int, *scores: float | None) -> Outcome:
        return Outcome(index, "g@1", 0.5, 2.0, scores=[*scores])

    won = [group(index, 1.0, 0.0) for index in range(20)]
    for counted in (tally(won), merged([unpack(pack(tally(won[:1]))), tally(won[1:])])):
        assert concerns("g@1", counted) == []
    equal = tally([group(index, 0.5, 0.5) for index in range(20)])
    assert [concern.kind for concern in concerns("g@1", equal)] == ["equal"]
