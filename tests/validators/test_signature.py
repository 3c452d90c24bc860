import re

import pytest

from validators import signature, structure, syntax
from validators.candidate import Candidate, CheckFailed


def _found(parameters: str, returns: str = "") -> Candidate:
    candidate = Candidate(f"\nasync def grade({parameters}){returns}:\n    return 1.0\n".encode())
    syntax.check(candidate)
    structure.check(candidate)
    return candidate


@pytest.mark.parametrize("parameters", ["thread", "sample: StringThread", "thread, /", "thread=None", "self"])
def test_one_parameter_of_any_name(parameters: str) -> None:
    name = parameters.replace(":", ",").replace("=", ",").split(",")[0]
    assert signature.check(_found(parameters)) == f"takes one parameter, `{name}`"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("", "has no parameter"),
        ("thread, answer", "has 2 parameters (thread, answer)"),
        ("*threads", "has 1 parameter (*threads)"),
        ("*, thread", "has 1 parameter (thread (keyword only))"),
        ("**options", "has 1 parameter (**options)"),
        (
            "output, context",
            "Write `async def grade(thread: StringThread) -> float`, which reads `thread.completion()`",
        ),
        ("sample, item", "as OpenAI's graders do: create it by `client.graders.create.python(…)`, or with `--contract"),
        ("self, thread", "A method cannot be uploaded: move it out of its class."),
    ],
)
def test_any_other_number_of_parameters(parameters: str, message: str) -> None:
    with pytest.raises(CheckFailed) as raised:
        signature.check(_found(parameters))
    assert message in raised.value.message
    assert raised.value.line == 2


def test_a_thousand_parameters_are_not_all_listed() -> None:
    with pytest.raises(CheckFailed) as raised:
        signature.check(_found(", ".join(f"p{number}" for number in range(1000))))
    assert "has 1000 parameters (p0, p1, " in raised.value.message
    assert len(raised.value.message) < 500


@pytest.mark.parametrize(
    ("parameters", "returns", "warned"),
    [
        ("thread: StringThread", " -> float", []),
        ("thread: gradebox.StringThread", " -> gradebox.Score", []),
        ("thread: 'gradebox.StringThread'", " -> 'float'", []),
        ("thread", " -> float", ["annotate the parameter: `thread: StringThread`"]),
        ("thread: str", " -> float", ["annotate the parameter"]),
        ("thread: StringThread", "", ["annotate what `grade` returns: `-> float`"]),
        ("thread: set[StringThread]", " -> float | None", ["annotate the parameter", "annotate what `grade` returns"]),
    ],
)
def test_other_annotations_are_warnings(parameters: str, returns: str, warned: list[str]) -> None:
    candidate = _found(parameters, returns)
    signature.check(candidate)
    assert len(candidate.warnings) == len(warned)
    for warning, part in zip(candidate.warnings, warned, strict=True):
        assert warning.startswith("line 2: ")
        assert part in warning
    assert not candidate.groups


@pytest.mark.parametrize(
    ("parameter", "returns"),
    [
        ("list[StringThread]", "list[float]"),
        ("'list[StringThread]'", "'list[Score]'"),
        ("list['StringThread']", "list[float | Score]"),
        ("List[gradebox.StringThread]", "typing.List[Score | Exception]"),
        ("Sequence[StringThread]", "tuple[float, ...]"),
        ("list[StringThread]", "list"),
    ],
)
def test_a_list_of_threads_makes_a_grader_of_groups(parameter: str, returns: str) -> None:
    candidate = _found(f"threads: {parameter}", f" -> {returns}")
    assert signature.check(candidate) == "takes one parameter, `threads`, a list of threads"
    assert candidate.groups
    assert candidate.warnings == []


@pytest.mark.parametrize(
    ("parameters", "returns", "message"),
    [
        ("group: list[StringThread]", "", "`async def grade(group: list[StringThread]) -> list[float]`"),
        ("group: list[StringThread]", " -> float", "returns a list of as many scores, and must say so"),
        ("group: list[StringThread]", " -> 'not ( Python'", "and must say so"),
        ("thread: StringThread", " -> list[float]", "says that it returns a list"),
        ("threads: list[str]", " -> list[float]", "says that it returns a list"),
    ],
)
def test_one_of_the_two_annotations_alone_fails(parameters: str, returns: str, message: str) -> None:
    with pytest.raises(CheckFailed, match=re.escape(message)) as raised:
        signature.check(_found(parameters, returns))
    assert raised.value.line == 2
