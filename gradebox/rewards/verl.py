"""verl: `compute_score(data_source, solution_str, ground_truth, extra_info) -> float`.

`NaiveRewardManager.run_single` of verl 0.9 (`verl/experimental/reward_loop`) calls it this way for each sample.
`BatchRewardManager.verify` (`verl/workers/reward_manager/batch.py`) calls it for many samples, with all parameter names
in the plural.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from gradebox.errors import ScoreMissing
from gradebox.outcome import Outcome
from gradebox.rewards import groups
from gradebox.rewards.collected_calls import CollectedCalls
from gradebox.rewards.plain import metadata

_Score = Callable[[list[dict[str, Any]]], list[Outcome]]


Columns = Collection[str] | None
"""Names of the fields that become metadata; None for all."""


def thread(
    data_source: Any,
    solution: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None,
    only: Columns = None,
    row: int | None = None,
) -> dict[str, Any]:
    """Make a thread with only the completion: verl does not pass the prompt. The other arguments are the metadata.

    Raises:
        ValueError: JSON cannot hold a value, or the sample lacks a column in `only`; the message names it.
    """
    columns = {**(extra_info or {}), "data_source": data_source, "ground_truth": ground_truth}
    for name in only or ():
        if name not in columns:
            place = "" if row is None else f"row {row}: "
            raise ValueError(
                f"{place}column {name!r} is missing: the sample has {', '.join(map(str, columns))}. Name columns that "
                "each sample has, or give the others None there"
            )
    return {"completion": solution, "metadata": metadata(columns, only, row)}


def threads(
    data_sources: Sequence[Any],
    solutions: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None,
    only: Columns = None,
) -> list[dict[str, Any]]:
    """Make a thread for each sample. Raises ValueError if the lists, named as verl names them, differ in length."""
    infos = [None] * len(solutions) if extra_infos is None else extra_infos
    for name, values in (("data_sources", data_sources), ("ground_truths", ground_truths), ("extra_infos", infos)):
        if len(values) != len(solutions):
            raise ValueError(
                f"{name} has {len(values)} values, and solution_strs has {len(solutions)}: pass one of each per sample"
            )
    samples = zip(data_sources, solutions, ground_truths, infos, strict=True)
    return [thread(*each, only, row) for row, each in enumerate(samples)]


def number(outcome: Outcome, row: int | None = None) -> float:
    """The score as a reward; verl and verifiers have no way to express a missing reward. Raises ScoreMissing."""
    if outcome.score is None:
        raise ScoreMissing(outcome, row)
    return outcome.score


class VerlReward:
    """A `compute_score` for one sample. Samples that verl scores concurrently are sent together."""

    def __init__(self, key: str, score: _Score, columns: Columns) -> None:
        self.__name__ = self.__qualname__ = key
        self._columns = columns
        self._calls = CollectedCalls(score)

    def __call__(
        self, data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **_more: Any
    ) -> float:
        """Return the sample's reward. Raises ScoreMissing."""
        sample = thread(data_source, solution_str, ground_truth, extra_info, self._columns)
        return number(self._calls.score(sample))


def generations(
    data_sources: Sequence[Any],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Mapping[str, Any] | None] | None,
) -> list[list[int]]:
    """The positions of the generations of each prompt, in any order, because verl may reorder them.

    They have the same "uid" in `extra_info`; or the same "index", source and ground truth.

    Raises:
        ValueError: a sample has neither: verl does not pass the prompt, and several prompts may have the same ground
            truth.
    """
    infos = [dict(info or {}) for info in (extra_infos if extra_infos is not None else [None] * len(data_sources))]
    if all(info.get("uid") is not None for info in infos):
        return groups.equal([str(info["uid"]) for info in infos])
    if any(info.get("index") is None for info in infos):
        raise ValueError(
            "a grader of groups was given samples of verl that do not tell their prompts apart: have the dataset say "
            'in `extra_info` the "index" of each row, as verl\'s own preprocessing does, or a "uid"'
        )
    rows = zip(data_sources, ground_truths, infos, strict=True)
    return groups.equal(
        [str((str(source), str(info.get("split")), str(info["index"]), str(truth))) for source, truth, info in rows]
    )


class VerlBatchReward:
    """A `compute_score` for verl's reward manager "batch"."""

    def __init__(self, key: str, score: _Score, columns: Columns, of_groups: bool) -> None:
        """`of_groups`: whether the generations of a prompt are scored together."""
        self.__name__ = self.__qualname__ = key
        self._columns = columns
        self._score = score
        self._of_groups = of_groups

    def __call__(
        self, data_sources: Any, solution_strs: Any, ground_truths: Any, extra_infos: Any = None, **_more: Any
    ) -> list[float]:
        """Return a reward for each sample. Raises ScoreMissing."""
        samples = threads(data_sources, solution_strs, ground_truths, extra_infos, self._columns)
        if not self._of_groups:
            return [number(each, row) for row, each in enumerate(self._score(samples))]
        places = generations(data_sources, ground_truths, extra_infos)
        found = groups.of_each(self._score(groups.lines(samples, places)), places)
        return [number(each, row) for row, each in enumerate(found)]
