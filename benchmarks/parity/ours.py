"""The numbers that our judges make of the decisions."""

import asyncio
import json
import re
from collections import Counter
from typing import Any

import numpy as np

from gradebox import ModelError, StringThread, testing
from gradebox.judges import CriterionItem, DirectJudge, MultiCriteria, PairwiseJudge
from gradebox.judges.criteria import DIRECT
from gradebox.score import Score

Rows = list[dict[str, Any]]


def answer(case: dict[str, Any]) -> Rows:
    """A row for each text, or a row with the error."""
    try:
        return _KINDS[case["kind"]](case)
    except (ModelError, ValueError) as error:
        return [{"error": f"{type(error).__name__}: {error}"[:200]}]


def _thread(text: str) -> StringThread:
    return StringThread([("user", "?"), ("assistant", text)])


def _criterion(name: str, options: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "description": f"Is it good by {name}?", "options": options}


def _direct(case: dict[str, Any], steps: int) -> Rows:
    judge = DirectJudge(
        _criterion("criterion", case["options"]),
        model="judge",
        steps=2 if steps == 2 else 1,
        check_positional_bias=case.get("bias", False),
        self_consistency=case.get("samples", 0),
    )
    rows = []
    for text, replies in zip(case["texts"], case["decisions"], strict=True):
        with testing.model("judge", _Script(case, replies)):
            score = asyncio.run(judge(_thread(text)))
        details: dict[str, Any] = dict(score.details or {})
        bias = details.get("positional_bias")
        rows.append({"score": float(score), "option": details["option"], "biased": bias and bias["detected"]})
    return rows


class _Script:
    """Replies to one text, by the order in which the options are listed."""

    def __init__(self, case: dict[str, Any], replies: dict[str, list[str]]) -> None:
        self._first, self._last = (json.dumps(case["options"][at]["name"]) for at in (0, -1))
        self._replies = replies
        self._asked: Counter[str] = Counter()

    def __call__(self, request: dict[str, Any]) -> str:
        if "schema" not in request:
            return "Step by step."
        named = [json.dumps(name) for name in request["schema"]["properties"]["option"]["enum"]]
        order = "straight" if named.index(self._first) < named.index(self._last) else "reversed"
        replies = self._replies[order]
        number = self._asked[order]
        self._asked[order] += 1
        reply = replies[min(number, len(replies) - 1)]
        return json.dumps(
            {"reasoning": "Step by step.", "option": reply}
            if "reasoning" in request["schema"]["properties"]
            else {"option": reply}
        )


def _multi_criteria(case: dict[str, Any]) -> Rows:
    criteria = [
        CriterionItem(
            _criterion(item["name"], item["options"]),
            item["weight"],
            item.get("target_option"),
            item.get("threshold"),
            item.get("required", False),
        )
        for item in case["items"]
    ]
    judge = MultiCriteria(criteria, model="judge", normalize_scores=case["normalize"])

    def script(request: dict[str, Any]) -> str:
        (name,) = re.findall(r"Is it good by (\w+)\?", request["messages"][-1]["content"])
        return json.dumps({"reasoning": "Step by step.", "option": case["decisions"][name]})

    with testing.model("judge", script):
        return [{"score": float(asyncio.run(judge(_thread("answer"))))}]


async def _compared(judge: PairwiseJudge, texts: list[str]) -> list[Score]:
    scores = await judge([_thread(text) for text in texts])
    if errors := [score for score in scores if isinstance(score, Exception)]:
        raise errors[0]
    return [score for score in scores if isinstance(score, Score)]


def _unitxt_pairwise(case: dict[str, Any]) -> Rows:
    names = {text: str(number) for number, text in enumerate(case["texts"], 1)}

    def script(request: dict[str, Any]) -> str:
        shown = [names[text] for text in re.findall(r"answer number \w\.", request["messages"][-1]["content"])]
        option = f"response {1 + shown.index(case['decisions'][','.join(shown)])}"
        return json.dumps({"reasoning": "Step by step.", "option": option})

    judge = PairwiseJudge("Which is better?", "judge", check_positional_bias=case.get("bias", False))
    with testing.model("judge", script):
        scores = asyncio.run(_compared(judge, case["texts"]))
    rows = []
    for score in scores:
        details: dict[str, Any] = dict(score.details or {})
        biased = [contest["biased"] for contest in details["contests"] if contest["biased"] is not None]
        rows.append({"score": details["win_rate"], "ranking": details["ranking"], "biased": biased or None})
    return rows


def _evalassist_pairwise(case: dict[str, Any]) -> Rows:
    options = iter(case["decisions"])
    last = case["decisions"][-1]

    def script(request: dict[str, Any]) -> str:
        option = next(options, last).replace("_", " ")
        return json.dumps({"reasoning": "Step by step.", "option": option})

    has_bias = case.get("bias", False)
    judge = PairwiseJudge("Is it good?", "judge", "at_once", case.get("ties", False), has_bias)
    with testing.model("judge", script):
        scores = asyncio.run(_compared(judge, case["texts"]))
    (contest,) = dict(scores[0].details or {})["contests"]
    winner = "tie" if contest["won"] is None else [*map(float, scores)].index(1.0)
    return [{"winner": winner, "biased": contest.get("biased")}]


def _interval(case: dict[str, Any]) -> Rows:
    from api.numbers.bootstrap import bounds  # here, because it imports SciPy

    found = bounds(np.array(case["scores"]), 1000)
    return [{"low": found[0], "high": found[1]}] if found else [{"low": None, "high": None}]


def _criteria(case: dict[str, Any]) -> Rows:
    return [{"name": name, **DIRECT[name].scores()} for name in sorted(DIRECT)]


_KINDS = {
    "criteria": _criteria,
    "unitxt direct": lambda case: _direct(case, 2),
    "evalassist direct": lambda case: _direct(case, 1),
    "multi-criteria": _multi_criteria,
    "unitxt pairwise": _unitxt_pairwise,
    "evalassist pairwise": _evalassist_pairwise,
    "interval": _interval,
}
