"""The numbers that unitxt and EvalAssist make of scripted decisions. Reads cases and prints numbers, both as JSON.

Runs in a separate environment, which has these packages and nothing of gradebox.
"""

import json
import re
import sys
from collections import Counter
from typing import Any

import numpy
from evalassist.judges import Criteria, CriteriaOption, DirectJudge, MultiCriteria, MultiCriteriaItem, PairwiseJudge
from scipy.stats import bootstrap
from unitxt import llm_as_judge_constants as unitxt
from unitxt.inference import InferenceEngine
from unitxt.llm_as_judge import LLMJudgeDirect, LLMJudgePairwise

Messages = list[dict[str, str]]


class Scripted(InferenceEngine):  # type: ignore[misc]  # the package is not typed
    """A model that answers what `script` returns."""

    use_cache: bool = False
    label: str = "scripted"
    script: Any = None

    def prepare_engine(self) -> None:
        """Does nothing."""

    def get_engine_id(self) -> str:
        """The name of the engine in results."""
        return "scripted_engine"

    def _infer(self, dataset: Any, return_meta_data: bool = False) -> list[str]:
        return [self.script(row["source"]) for row in dataset]


class _Direct:
    """Replies to a direct judge, by text, order of the options and sample."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._case = case
        self._asked: Counter[tuple[int, str]] = Counter()

    def reply(self, messages: Messages) -> str:
        """The next option that the case decides on."""
        prompt = messages[0]["content"] + messages[-1]["content"]
        # A repair prompt does not contain the judged text.
        text = next((number for number, text in enumerate(self._case["texts"]) if text in prompt), 0)
        first, last = (self._case["options"][at]["name"] for at in (0, -1))
        listed = [line.strip('- "') for line in messages[-1]["content"].split("\n") if line.startswith("- ")]
        order = "reversed" if {first, last} <= {*listed} and listed.index(last) < listed.index(first) else "straight"
        replies = self._case["decisions"][text][order]
        number = self._asked[text, order]
        self._asked[text, order] += 1
        return str(replies[min(number, len(replies) - 1)])


def _unitxt_direct(case: dict[str, Any]) -> list[dict[str, Any]]:
    direct = _Direct(case)
    criterion = unitxt.CriteriaWithOptions(
        name="criterion",
        description="Is it good?",
        options=[unitxt.CriteriaOption(name=option["name"], description="") for option in case["options"]],
        option_map={option["name"]: option["score"] for option in case["options"]},
        prediction_field="response",
        context_fields=[],
    )
    judge = LLMJudgeDirect(
        inference_engine=Scripted(
            script=lambda messages: direct.reply(messages) if len(messages) > 1 else "Step by step."
        ),
        criteria=criterion,
        evaluator_name="scripted",
        context_fields=[],
        check_positional_bias=case.get("bias", False),
    )
    rows = len(case["texts"])
    found = judge.compute(references=[[""]] * rows, predictions=case["texts"], task_data=[{}] * rows)
    return [
        {
            "score": row["criterion"],
            "option": row["criterion_selected_option"],
            "biased": row.get("criterion_positional_bias"),
        }
        for row in found
    ]


def _evalassist_criterion(name: str, options: list[dict[str, Any]]) -> Any:
    return Criteria(
        name=name,
        description=f"Is it good by {name}?",
        to_evaluate_field="response",
        options=[CriteriaOption(name=option["name"], description="", score=option["score"]) for option in options],
    )


def _explained(option: str) -> str:
    return json.dumps({"explanation": "Step by step.", "selected_option": option})


def _evalassist_direct(case: dict[str, Any]) -> list[dict[str, Any]]:
    direct = _Direct(case)
    judge = DirectJudge(
        Scripted(script=lambda messages: _explained(direct.reply(messages))),
        check_positional_bias=case.get("bias", False),
        self_consistency=case.get("samples", 0),
    )
    found = judge(case["texts"], _evalassist_criterion("criterion", case["options"]))
    return [
        {
            "score": "random" if row.metadata["generation_failed"] else row.score,
            "option": "random" if row.metadata["generation_failed"] else row.selected_option,
            "biased": row.positional_bias.detected if row.positional_bias else None,
        }
        for row in found
    ]


def _multi_criteria(case: dict[str, Any]) -> list[dict[str, Any]]:
    def script(messages: Messages) -> str:
        (name,) = re.findall(r"Criteria name: (\w+)", messages[-1]["content"])
        return _explained(case["decisions"][name])

    items = [
        MultiCriteriaItem(
            criterion=_evalassist_criterion(item["name"], item["options"]),
            weight=item["weight"],
            target_option=item.get("target_option"),
            score_threshold=item.get("threshold"),
            required=item.get("required", False),
        )
        for item in case["items"]
    ]
    judge = DirectJudge(Scripted(script=script))
    (found,) = judge.evaluate_multi_criteria(["answer"], MultiCriteria(items=items, normalize_scores=case["normalize"]))
    return [{"score": found.aggregated_score}]


def _criteria(case: dict[str, Any]) -> list[dict[str, Any]]:
    found = {each.value.name: each.value.option_map for each in unitxt.DirectCriteriaCatalogEnum}
    return [{"name": name, **{option: float(score) for option, score in found[name].items()}} for name in sorted(found)]


def _unitxt_pairwise(case: dict[str, Any]) -> list[dict[str, Any]]:
    def script(messages: Messages) -> str:
        if len(messages) == 1:
            return "Step by step."
        first, second = re.findall(r'Choose "(\d+)" if', messages[-1]["content"])
        return str(case["decisions"][f"{first},{second}"])

    judge = LLMJudgePairwise(
        inference_engine=Scripted(script=script),
        criteria=unitxt.Criteria(
            name="criterion", description="Which is better?", prediction_field="response", context_fields=[]
        ),
        evaluator_name="scripted",
        context_fields=[],
        check_positional_bias=case.get("bias", False),
    )
    (found,) = judge.compute(references=[[""]], predictions=[case["texts"]], task_data=[{}])
    return [
        {
            "score": found[f"{name}_winrate"],
            "ranking": found[f"{name}_ranking"],
            "biased": found.get(f"{name}_positional_bias") or None,
        }
        for name in map(str, range(1, len(case["texts"]) + 1))
    ]


def _evalassist_pairwise(case: dict[str, Any]) -> list[dict[str, Any]]:
    asked: list[Messages] = []

    def script(messages: Messages) -> str:
        asked.append(messages)
        return _explained(case["decisions"][len(asked) - 1])

    judge = PairwiseJudge(Scripted(script=script), check_positional_bias=case.get("bias", False))
    (found,) = judge([case["texts"]], _evalassist_criterion("criterion", []))
    return [
        {"winner": found.selected_option, "biased": found.positional_bias.detected if found.positional_bias else None}
    ]


def _interval(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Calls `bootstrap` as unitxt's `MetricWithConfidenceInterval` does: BCa, 1,000 resamples, 0.95, seed 42."""
    found = bootstrap((case["scores"],), numpy.mean, n_resamples=1000, rng=numpy.random.default_rng(42))
    return [{"low": found.confidence_interval.low, "high": found.confidence_interval.high}]


KINDS = {
    "criteria": _criteria,
    "unitxt direct": _unitxt_direct,
    "evalassist direct": _evalassist_direct,
    "multi-criteria": _multi_criteria,
    "unitxt pairwise": _unitxt_pairwise,
    "evalassist pairwise": _evalassist_pairwise,
    "interval": _interval,
}


def _answer(case: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        return KINDS[case["kind"]](case)
    except Exception as error:  # noqa: BLE001  # the errors are compared
        return [{"error": f"{type(error).__name__}: {error}"[:200]}]


if __name__ == "__main__":
    answers = [_answer(case) for case in json.load(sys.stdin)]
    print("\n" + json.dumps(answers))
