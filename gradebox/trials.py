"""How reliably prompts are solved: pass@k, pass^k and the pass rate over repeated completions."""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import comb
from typing import Any, NamedTuple

from gradebox.outcome import CompletionScore, Outcome, completion_scores

Key = str | int


class PromptTrials(NamedTuple):
    """The completions of one prompt. `pass_at_k` and `pass_hat_k` are None if fewer than `k` completions have a score.

    Attributes:
        key: the id, or the metadata field, that the completions share.
        decided: number of completions with a score.
        passed: number of these that passed.
        errors: number of completions with an error, by its kind.
        not_applicable: number of completions that the grader does not apply to.
        pass_at_k: the probability that at least one of `k` completions passes.
        pass_hat_k: the probability that all of `k` completions pass.
        pass_rate: passed / decided; None if no completion has a score.
    """

    key: Key
    decided: int
    passed: int
    errors: dict[str, int]
    not_applicable: int
    pass_at_k: float | None
    pass_hat_k: float | None
    pass_rate: float | None


class Trials(NamedTuple):
    """All prompts. The three rates are means over the `counted` prompts, which have at least `k` completions with a
    score; None if there is no such prompt.

    Attributes:
        k: number of completions that are drawn.
        pass_at_k: the probability that at least one of `k` completions passes.
        pass_hat_k: the probability that all of `k` completions pass.
        pass_rate: the probability that one completion passes.
        counted: number of prompts included in these rates.
        too_few: number of prompts left out, because fewer than `k` of their completions have a score.
        errors: number of completions with an error, by its kind. They do not count as failed completions.
        not_applicable: number of completions that the grader does not apply to.
        without_key: number of completions with an error whose prompt is unknown.
        prompts: each prompt, in order of first occurrence.
    """

    k: int
    pass_at_k: float | None
    pass_hat_k: float | None
    pass_rate: float | None
    counted: int
    too_few: int
    errors: dict[str, int]
    not_applicable: int
    without_key: int
    prompts: list[PromptTrials]


class _Tally:
    """The counts of one prompt."""

    __slots__ = ("decided", "errors", "not_applicable", "passed")

    def __init__(self) -> None:
        self.decided = self.passed = self.not_applicable = 0
        self.errors: Counter[str] = Counter()

    def add(self, outcome: Outcome | CompletionScore, threshold: float) -> None:
        if outcome.not_applicable is not None:
            self.not_applicable += 1
        elif outcome.score is None:
            self.errors[_kind(outcome)] += 1
        else:
            self.decided += 1
            self.passed += outcome.score >= threshold

    def of(self, key: Key, k: int) -> PromptTrials:
        n, c = self.decided, self.passed
        drawn = comb(n, k)
        return PromptTrials(
            key,
            n,
            c,
            dict(self.errors),
            self.not_applicable,
            (drawn - comb(n - c, k)) / drawn if drawn else None,
            comb(c, k) / drawn if drawn else None,
            c / n if n else None,
        )


def trials(
    outcomes: Iterable[Outcome] | Iterable[tuple[Outcome, Any]],
    k: int,
    *,
    by: str | None = None,
    threshold: float = 1.0,
) -> Trials:
    """Compute how reliably prompts are solved, from one grader's outcomes of repeated completions.

    With n scored completions of a prompt, c of which passed, pass@k is 1 - C(n-c, k) / C(n, k), and pass^k is
    C(c, k) / C(n, k): the probabilities for drawing k completions without replacement. Of a group, each completion
    counts; if the group has an error in place of scores, it counts as one.

    Args:
        outcomes: of a batch. With `by`, pairs of an outcome and its thread: `batch.outcomes(threads=True)`.
        k: number of completions to draw.
        by: the metadata field that the completions of a prompt share; by default they share their id.
        threshold: the lowest score that passes.

    Raises:
        ValueError: `k` is not an integer of at least 1, the outcomes are of several graders, or a completion with a
            score has no key.
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k= takes an integer of at least 1, and got {k!r:.80}")
    tallies: dict[Key, _Tally] = {}
    unplaced = _Tally()
    graders: set[str] = set()
    for one in outcomes:
        outcome, thread = (one, None) if isinstance(one, Outcome) else one
        graders.add(outcome.grader)
        key = _key(outcome, thread, by)
        tally = unplaced if key is None else tallies.setdefault(key, _Tally())
        for each in (outcome,) if outcome.scores is None else completion_scores(outcome):
            tally.add(each, threshold)
    if len(graders) > 1:
        raise ValueError(f"there are outcomes of {', '.join(sorted(graders))}: count those of one grader at a time")
    prompts = [tally.of(key, k) for key, tally in tallies.items()]
    counted = [prompt for prompt in prompts if prompt.decided >= k]
    return Trials(
        k,
        _mean([prompt.pass_at_k for prompt in counted]),
        _mean([prompt.pass_hat_k for prompt in counted]),
        _mean([prompt.pass_rate for prompt in counted]),
        len(counted),
        len(prompts) - len(counted),
        dict(sum((tally.errors for tally in tallies.values()), unplaced.errors)),
        sum(tally.not_applicable for tally in tallies.values()),
        sum(unplaced.errors.values()),
        prompts,
    )


def _key(outcome: Outcome, thread: Any, by: str | None) -> Key | None:
    """The key that a completion shares with others of its prompt; None if it has an error and its prompt is unknown."""
    if by is None:
        key, where = outcome.id, '"id"'
    else:
        if thread is None and outcome.error is None:
            raise ValueError(f"by={by!r} is of the metadata, so give pairs with the thread: outcomes(threads=True)")
        metadata = thread.get("metadata") if isinstance(thread, Mapping) else None
        key, where = metadata.get(by) if isinstance(metadata, Mapping) else None, f"{by!r:.80} in its metadata"
    if isinstance(key, str | int) and not isinstance(key, bool):
        return key
    if outcome.error is not None and outcome.scores is None:
        return None
    raise ValueError(
        f"the thread at position {outcome.index} has no {where}, a text or an integer that identifies its prompt"
    )


def _kind(outcome: Outcome | CompletionScore) -> str:
    return "unknown" if outcome.error is None else outcome.error.kind


def _mean(numbers: list[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if known else None
