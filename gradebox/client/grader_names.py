"""Names of graders as the client takes them: `exact`, `exact@3`, a handle, or several with weights."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from gradebox.schemas import GraderRecord

OneGrader = str | GraderRecord
"""A grader: `exact-match`, `exact-match@3`, or a handle, which stands for its version."""

GraderChoice = OneGrader | Mapping[str, float] | Mapping[OneGrader, float] | Iterable[OneGrader]
"""One grader, several, or several with their weights."""


def name_of(grader: OneGrader) -> str:
    """The name of a grader; of a handle, such as `exact-match@3`. Raises TypeError for anything else."""
    if isinstance(grader, GraderRecord):
        return f"{grader.key}@{grader.version}"
    if not isinstance(grader, str):
        raise TypeError(f"{grader!r:.80} is no grader: name it, as in 'exact' or 'exact@3', or give a handle")
    return grader


def split_version(grader: OneGrader) -> tuple[str, int | None]:
    """`exact-match@3` as ("exact-match", 3), and `exact-match` as ("exact-match", None).

    Raises:
        TypeError: it is neither a name nor a handle.
        ValueError: the part after the @ is not a number.
    """
    key, at, number = name_of(grader).partition("@")
    if not at:
        return key, None
    if not number.isdecimal() or not int(number):
        raise ValueError(f"{grader!r}: the version after the @ is a number from 1 on, as in {key}@3")
    return key, int(number)


def version_of(grader: OneGrader, version: int | None) -> tuple[str, int | None]:
    """As `split_version`; `version` is the version of a name without one.

    Raises:
        ValueError: the two versions differ.
    """
    key, named = split_version(grader)
    if named is not None and version not in (None, named):
        raise ValueError(
            f"{name_of(grader)!r} is version {named}, and version={version!r} is another: give one of them"
        )
    return key, named if version is None else version


def weights_of(graders: GraderChoice) -> dict[str, float]:
    """The graders, each with its weight, by default 1.

    Raises:
        TypeError: one is neither a name nor a handle, or a weight is no number.
        ValueError: one is named twice.
    """
    if isinstance(graders, str | GraderRecord) or not isinstance(graders, Iterable):
        graders = [graders]  # `name_of` refuses what is no grader
    pairs = graders.items() if isinstance(graders, Mapping) else [(one, 1.0) for one in graders]
    named = [(name_of(one), weight) for one, weight in pairs]
    if repeated := [name for name, count in Counter(name for name, _ in named).items() if count > 1]:
        raise ValueError(f"the grader {repeated[0]!r} is named twice: name it once")
    return {name: _weight(name, weight) for name, weight in named}


def _weight(grader: str, weight: Any) -> float:
    if isinstance(weight, str) or not hasattr(weight, "__float__"):  # numpy's numbers have it too
        raise TypeError(f"the weight of {grader!r} is {weight!r:.80}, and a weight is a number: {{{grader!r}: 0.5}}")
    return float(weight)
