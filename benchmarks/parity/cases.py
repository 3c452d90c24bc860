"""What is decided, and how the numbers are to compare."""

from typing import Any, Literal, NamedTuple

Verdict = Literal["equal", "better", "different"]

_YES_NO = [{"name": "Yes", "score": 1.0}, {"name": "No", "score": 0.0}]
_FOUR = [
    {"name": "Excellent", "score": 1.0},
    {"name": "Acceptable", "score": 0.75},
    {"name": "Could be Improved", "score": 0.5},
    {"name": "Bad", "score": 0.0},
]
_ONE_TO_FIVE = [{"name": str(number), "score": float(number)} for number in range(1, 6)]


class Case(NamedTuple):
    """Decisions, and what is to be made of them. `given` goes to both sides; `why` tells what is not equal."""

    name: str
    given: dict[str, Any]
    verdict: Verdict = "equal"
    why: str = ""


def _decided(*straight: str, reverse: list[str] | None = None) -> list[dict[str, list[str]]]:
    """The first reply to each text."""
    turned = straight if reverse is None else reverse
    return [{"straight": [one], "reversed": [other]} for one, other in zip(straight, turned, strict=True)]


def _direct(
    of: str, options: list[dict[str, Any]], decisions: list[dict[str, list[str]]], **more: Any
) -> dict[str, Any]:
    texts = [f"answer number {chr(97 + number)}." for number in range(len(decisions))]
    return {"kind": f"{of} direct", "options": options, "texts": texts, "decisions": decisions, **more}


CASES = [
    Case("each option has its score", _direct("unitxt", _FOUR, _decided("Bad", "Excellent", "Acceptable"))),
    Case(
        "another order of the options turns a decision: the straight one counts",
        _direct("unitxt", _YES_NO, _decided("Yes", "No", reverse=["No", "No"]), bias=True),
    ),
    Case(
        "an empty selection",
        _direct("unitxt", _YES_NO, _decided("")),
        "better",
        "unitxt takes the closest option; ours asks again and then is a typed error",
    ),
    Case(
        "`not yes`",
        _direct("unitxt", _YES_NO, _decided("not yes")),
        "better",
        "unitxt reads Yes, 1.0",
    ),
    Case(
        "`The response is Bad`",
        _direct("unitxt", _FOUR, _decided("The response is Bad")),
        "better",
        "unitxt reads Could be Improved, 0.5",
    ),
    Case("each option has its score", _direct("evalassist", _FOUR, _decided("Bad", "Excellent", "Acceptable"))),
    Case("five grades", _direct("evalassist", _ONE_TO_FIVE, _decided("4", "1", "5"))),
    Case(
        "positional bias",
        _direct("evalassist", _YES_NO, _decided("Yes", "No", reverse=["No", "No"]), bias=True),
    ),
    Case(
        "self-consistency: the score is the mean of all samples, the option the most frequent",
        _direct("evalassist", _YES_NO, [{"straight": ["Yes", "No", "Yes"], "reversed": ["No"]}], samples=3),
    ),
    Case(
        "self-consistency, two of two: the first of those that are as frequent",
        _direct("evalassist", _YES_NO, [{"straight": ["No", "Yes"], "reversed": ["No"]}], samples=2),
    ),
    Case(
        "an option in another case",
        _direct("evalassist", _YES_NO, _decided("yes")),
        "better",
        "EvalAssist asks for repairs, then draws one at random; ours reads it: no other differs by case alone",
    ),
    Case(
        "no option at all",
        _direct("evalassist", _YES_NO, _decided("Maybe")),
        "better",
        "EvalAssist draws an option at random; ours is a typed error",
    ),
    Case(
        "an option named `inf` without a score",
        _direct("evalassist", [{"name": "inf", "score": None}, {"name": "0", "score": 0.0}], _decided("inf")),
        "better",
        "EvalAssist scores infinity; ours refuses the criterion",
    ),
]
