"""The decisions, and how the numbers must compare."""

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
    """Decisions, and how their numbers must compare. Both sides receive `given`; `why` explains a difference."""

    name: str
    given: dict[str, Any]
    verdict: Verdict = "equal"
    why: str = ""


def _decided(*straight: str, reverse: list[str] | None = None) -> list[dict[str, list[str]]]:
    """One reply to each text, for each order of the options."""
    turned = straight if reverse is None else reverse
    return [{"straight": [one], "reversed": [other]} for one, other in zip(straight, turned, strict=True)]


def _direct(
    of: str, options: list[dict[str, Any]], decisions: list[dict[str, list[str]]], **more: Any
) -> dict[str, Any]:
    texts = [f"answer number {chr(97 + number)}." for number in range(len(decisions))]
    return {"kind": f"{of} direct", "options": options, "texts": texts, "decisions": decisions, **more}


def _item(name: str, options: list[dict[str, Any]], weight: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "options": options, "weight": weight, **more}


def _criteria(items: list[dict[str, Any]], normalize: bool = True, **decisions: str) -> dict[str, Any]:
    return {"kind": "multi-criteria", "items": items, "normalize": normalize, "decisions": decisions}


def _contests(of: str, texts: int, decisions: dict[str, str] | list[str], **more: Any) -> dict[str, Any]:
    """Decisions: for unitxt by the two responses as shown, for EvalAssist in the order of the asks."""
    shown = [f"answer number {chr(97 + number)}." for number in range(texts)]
    return {"kind": f"{of} pairwise", "texts": shown, "decisions": decisions, **more}


CASES = [
    Case("the names, options and scores of all that are predefined", {"kind": "criteria"}),
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
    Case(
        "weights, normalised",
        _criteria([_item("a", _ONE_TO_FIVE, 0.3), _item("b", _FOUR, 0.7)], a="2", b="Acceptable"),
    ),
    Case(
        "weights, as the options score",
        _criteria([_item("a", _ONE_TO_FIVE, 0.3), _item("b", _FOUR, 0.7)], False, a="2", b="Acceptable"),
    ),
    Case(
        "a target option and a threshold",
        _criteria(
            [_item("a", _YES_NO, 0.5, target_option="No"), _item("b", _ONE_TO_FIVE, 0.5, threshold=0.5)], a="No", b="3"
        ),
    ),
    Case(
        "what is required is not met",
        _criteria([_item("a", _FOUR, 0.5, required=True), _item("b", _FOUR, 0.5)], a="Acceptable", b="Excellent"),
    ),
    Case(
        "what is required is met",
        _criteria([_item("a", _FOUR, 0.5, required=True), _item("b", _FOUR, 0.5)], a="Excellent", b="Bad"),
    ),
    Case(
        "a threshold of 2 on scores that are normalised",
        _criteria([_item("a", _ONE_TO_FIVE, 1.0, threshold=2.0)], a="5"),
        "better",
        "nothing can be above it: EvalAssist scores 0, ours refuses the setting",
    ),
    Case(
        "a target that is no option",
        _criteria([_item("a", _YES_NO, 1.0, target_option="Maybe")], a="Yes"),
        "better",
        "EvalAssist scores 0 always; ours refuses the setting",
    ),
    Case(
        "options that all score the same",
        _criteria([_item("a", [{"name": "x", "score": 1.0}, {"name": "y", "score": 1.0}], 1.0)], a="x"),
        "better",
        "EvalAssist divides by zero when it scores; ours refuses the criterion",
    ),
    Case("win rates and ranks of three", _contests("unitxt", 3, {"1,2": "1", "1,3": "3", "2,3": "3"})),
    Case("three that win one each", _contests("unitxt", 3, {"1,2": "1", "1,3": "3", "2,3": "2"})),
    Case(
        "two that lose all share a rank",
        _contests("unitxt", 4, {"1,2": "1", "1,3": "1", "1,4": "4", "2,3": "2", "2,4": "4", "3,4": "3"}),
    ),
    Case(
        "another order of the responses turns a contest: the straight one counts",
        _contests(
            "unitxt",
            3,
            {"1,2": "1", "2,1": "2", "1,3": "3", "3,1": "3", "2,3": "2", "3,2": "2"},
            bias=True,
        ),
    ),
    Case("the best of three at once", _contests("evalassist", 3, ["response_2"])),
    Case("both orders of three at once", _contests("evalassist", 3, ["response_2", "response_2"], bias=True)),
    Case("another order turns the contest", _contests("evalassist", 3, ["response_2", "response_1"], bias=True)),
    Case("a tie", _contests("evalassist", 2, ["tie"], ties=True)),
    Case(
        "a tie that is not allowed",
        _contests("evalassist", 2, ["tie"]),
        "better",
        "EvalAssist takes it all the same; ours asks again and then is a typed error",
    ),
    Case(
        "one response",
        _contests("evalassist", 1, ["response_1"]),
        "better",
        "in EvalAssist it wins against nobody; ours refuses the group",
    ),
    Case("of nine scores", {"kind": "interval", "scores": [0.0, 1.0, 0.5, 0.25, 1.0, 1.0, 0.0, 0.75, 1.0]}),
    Case("of forty scores of 0 and 1", {"kind": "interval", "scores": [float(n % 3 == 0) for n in range(40)]}),
]
