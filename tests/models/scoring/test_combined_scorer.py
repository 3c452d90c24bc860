"""Tests of combined graders: their parts score in separate sandboxes, and the outcomes are combined."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from time import monotonic

import pytest
from msgspec.structs import replace

from gradebox.judges import Combine
from gradebox.outcome import Outcome, OutcomeError, details_of
from models.scoring import combined_scorer
from models.scoring.combined_scorer import CombinedScorer, PartScorer
from sandbox.errors import InfrastructureError
from sandbox.grader_source import GraderSource
from sandbox.grading.grading import NO_SANDBOX, Grading
from sandbox.limits import TEXT_BYTES
from sandbox.pool.pool import Pool

LENGTH = "async def grade(thread):\n    return len(thread.completion())\n"
SLEEPS = "import time\n\n\nasync def grade(thread):\n    time.sleep(0.05)\n    return 1.0\n"


def lines(count: int) -> bytes:
    return b"\n".join(json.dumps({"id": n, "completion": "x" * n}).encode() for n in range(count))


def combined(pool: Pool, **sources: str) -> CombinedScorer:
    parts = {
        name: PartScorer(f"{name}@1", partial(pool.grading, GraderSource(source, project="p")))
        for name, source in sources.items()
    }
    return CombinedScorer(Combine([*sources]), parts, TEXT_BYTES)


class _Part:
    """A part without a sandbox. A function makes the outcomes of so many threads."""

    def __init__(self, outcomes: Callable[[int], list[Outcome]]) -> None:
        self.traces: dict[int, str] = {}
        self._outcomes = outcomes

    def score(self, payload: bytes, first: int, label: str, count: int, *, stop: object) -> list[Outcome]:
        return self._outcomes(count)

    @contextmanager
    def lend(self) -> Iterator[Grading]:
        yield self  # type: ignore[misc]  # has the methods that are used


def of_parts(**parts: Callable[[int], list[Outcome]]) -> CombinedScorer:
    scorers = {name: PartScorer("a@1", _Part(made).lend) for name, made in parts.items()}
    return CombinedScorer(Combine([*parts]), scorers, TEXT_BYTES)


def passing(count: int) -> list[Outcome]:
    return [Outcome(n, "a@1", 1.0, 1.0) for n in range(count)]


def giving(*outcomes: Outcome) -> Callable[[int], list[Outcome]]:
    left = iter(outcomes)
    return lambda count: [replace(outcome, index=n) for n, outcome in enumerate(islice(left, count))]


@pytest.mark.sandbox
def test_scores_are_in_order_whatever_the_slices(pool: Pool) -> None:
    outcomes = combined(pool, a=LENGTH, b=LENGTH).score(lines(300), 40, "g@1")
    assert [outcome.score for outcome in outcomes] == list(range(300))
    assert [(outcome.index, outcome.id) for outcome in outcomes] == [(40 + n, n) for n in range(300)]
    assert {outcome.grader for outcome in outcomes} == {"g@1"}


def test_of_many_parts_no_more_outcomes_are_held_than_of_one_grader() -> None:
    held: list[int] = []

    def counted(count: int) -> list[Outcome]:
        held.append(count)
        return passing(count)

    scorer = of_parts(**{f"p{number}": counted for number in range(16)})
    assert [outcome.score for outcome in scorer.score(lines(1000), 0, "g@1")] == [1.0] * 1000
    assert max(held) * 16 <= 1000


@pytest.mark.sandbox
def test_what_is_stopped_keeps_whole_slices(pool: Pool) -> None:
    scorer = combined(pool, slow=SLEEPS, length=LENGTH)
    until = monotonic() + 1.0
    outcomes = scorer.score(lines(1000), 0, "g@1", stop=lambda done: done > 0 and monotonic() > until)
    assert 0 < len(outcomes) < 100
    assert [outcome.score for outcome in outcomes] == [(1 + n) / 2 for n in range(len(outcomes))]
    assert monotonic() < until + 2


@pytest.mark.sandbox
def test_what_nobody_wants_ends_at_once(pool: Pool) -> None:
    began = monotonic()
    scorer = combined(pool, slow=SLEEPS.replace("0.05", "4"), length=LENGTH)
    assert scorer.score(lines(2), 0, "g@1", stop=lambda _: monotonic() > began + 0.3) == []
    assert monotonic() < began + 3


def test_parts_have_a_sandbox_one_after_another_and_the_last_keeps_its_own_for_the_next_slice() -> None:
    lent: list[str] = []

    @contextmanager
    def lend(name: str, score: float) -> Iterator[Grading]:
        lent.append(f"+{name}")
        with _Part(lambda count: [replace(one, score=score, id=name) for one in passing(count)]).lend() as part:
            yield part
        lent.append(f"-{name}")

    parts = {name: PartScorer("same@1", partial(lend, name, score)) for name, score in (("a", 1.0), ("b", 0.0))}
    scorer = CombinedScorer(Combine(["a", "b"]), parts, TEXT_BYTES)
    outcomes = scorer.score(lines(20), 0, "g@1")  # slices of 1, 4 and 15
    assert lent == ["+a", "-a", "+b", "-b", "+a", "-a", "+b", "-b"]
    for outcome in outcomes:
        assert outcome.id == "a"  # of the first part
        assert [(details_of(outcome) or {})["parts"][name]["score"] for name in "ab"] == [1.0, 0.0]


@pytest.mark.parametrize("calls", [0, 2])
def test_a_part_without_a_sandbox_costs_no_outcome_that_was_there(calls: int) -> None:
    left = iter(range(calls))

    def failing(count: int) -> list[Outcome]:
        if next(left, None) is None:
            raise InfrastructureError("no sandbox")
        return passing(count)

    scorer = of_parts(a=failing)
    if not calls:
        with pytest.raises(InfrastructureError):
            scorer.score(lines(100), 0, "g@1")
        return
    outcomes = scorer.score(lines(100), 10, "g@1")
    assert [outcome.score for outcome in outcomes] == [1.0] * 5 + [None] * 95  # slices of one and of four
    assert [(outcome.index, outcome.id) for outcome in outcomes[5:]] == [(10 + n, n) for n in range(5, 100)]
    assert {outcome.error for outcome in outcomes[5:]} == {NO_SANDBOX}


def test_a_fault_of_the_service_is_told_as_such_and_is_no_failure_of_a_grader() -> None:
    scorer = of_parts(a=giving(Outcome(0, "a@1", None, 0.0, error=NO_SANDBOX)))
    (outcome,) = scorer.score(lines(1), 0, "g@1")
    assert outcome.error == NO_SANDBOX


def test_threads_share_what_is_made_of_scores_alone_and_of_the_same_ones() -> None:
    bare = [Outcome(0, "a@1", score, 1.0, id=n) for n, score in enumerate((1.0, 0.5, 1.0, 0.0, -0.0, 0.5))]
    told = [
        Outcome(0, "a@1", 1.0, 1.0, id=6, reason="so"),
        Outcome(0, "a@1", 1.0, 1.0, id=7, values={"x": 1.0}),
        Outcome(0, "a@1", 1.0, 1.0, id=8, details={"option": "y"}),
        Outcome(0, "a@1", 0.5, 2.0, id=9),
    ]
    given = [*bare, *told]
    found = of_parts(a=giving(*given)).score(lines(len(given)), 0, "g@1")
    for outcome, each in zip(found, given, strict=True):
        own = of_parts(a=giving(each)).score(lines(1), 0, "g@1")
        assert replace(outcome, index=0) == own[0]
        assert math.copysign(1, outcome.score or 0.0) == math.copysign(1, each.score or 0.0)
    assert [(details_of(outcome) or {})["parts"]["a"].get("reason") for outcome in found].count("so") == 1


def test_results_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combined_scorer, "_KEPT", 3)
    given = [Outcome(0, "a@1", float(n % 7), 1.0) for n in range(50)]
    scorer = of_parts(a=giving(*given))
    assert [outcome.score for outcome in scorer.score(lines(50), 0, "g@1")] == [float(n % 7) for n in range(50)]
    assert len(scorer._results) <= 3


def test_the_texts_of_a_combination_are_cut_as_those_of_its_parts() -> None:
    failed = Outcome(0, "a@1", None, 1.0, error=OutcomeError("exception", "x" * 10_000))
    parts = {name: PartScorer("a@1", _Part(giving(failed, failed)).lend) for name in "abcdefgh"}
    for text_bytes, kept in ((300, 300), (16_384, 8000)):
        (outcome,) = CombinedScorer(Combine([*parts]), parts, text_bytes).score(lines(1), 0, "g@1")
        assert outcome.error is not None
        assert kept <= len(outcome.error.message.encode()) <= text_bytes


def test_a_huge_score_costs_no_other_completion() -> None:
    largest = 1.7976931348623157e308
    names = {f"p{number}": weight for number, weight in enumerate((4, 7, 9, 8, 9))}
    scores = (0.5, largest, 0.25)
    parts = {name: giving(*(Outcome(0, "a@1", score, 1.0) for score in scores)) for name in names}
    scorer = CombinedScorer(
        Combine({name: {"grader": name, "weight": weight} for name, weight in names.items()}),
        {name: PartScorer("a@1", _Part(made).lend) for name, made in parts.items()},
        TEXT_BYTES,
    )
    assert [outcome.score for outcome in scorer.score(lines(3), 0, "g@1")] == [0.5, largest, 0.25]
