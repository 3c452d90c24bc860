"""The ways to make a grader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from gradebox._openai import openai_grader
from gradebox.client import calls
from gradebox.client._async.scoring import AsyncScoring
from gradebox.client._async.transport import AsyncTransport
from gradebox.client.handles import AsyncGraderHandle
from gradebox.client.threads import Thread
from gradebox.client.versions import Ask, Function, GraderOptions, check_key, kind_of, one_of, version_of
from gradebox.schemas import Isolation, WrittenKind

if TYPE_CHECKING:
    from gradebox.checks import ThreadCheck
    from gradebox.judges import Criterion, CriterionItem, DecidedCase, Example
    from gradebox.judges.combined_part import PartConfig
    from gradebox.judges.criterion import ContextFields
    from gradebox.judges.direct_judge import OnBias
    from gradebox.judges.pairwise_judge import Contests


class AsyncCreation:
    """The ways to make a grader: `create.function`, `create.python`, and one for each kind, as `create.judge`."""

    def __init__(self, transport: AsyncTransport, project: str, scoring: AsyncScoring) -> None:
        self._transport = transport
        self._project = project
        self._scoring = scoring

    async def __call__(self, *, key: str, fn: Function, **options: Unpack[GraderOptions]) -> AsyncGraderHandle:
        """As `function`."""
        return await self.function(key=key, fn=fn, **options)

    async def function(
        self,
        *,
        key: str,
        fn: Function,
        name: str | None = None,
        description: str | None = None,
        isolation: Isolation | None = None,
        timeout_s: float | None = None,
        memory_mb: int | None = None,
        threads: Sequence[Thread] | None = None,
        environment: str | None = None,
        ask: Ask | None = None,
    ) -> AsyncGraderHandle:
        """Proves a function and keeps it as the first version of a new grader.

        `timeout_s` is for one completion, in seconds; `memory_mb` is in MiB. The test run is made on `threads`, where
        the grader needs metadata that the default thread lacks; they stay with the grader, for its later proofs.
        `environment` names packages that it may import, as `math` (its newest build) or `math@2`.
        With `ask="stand-in"`, no model and no endpoint that it asks is asked in the test run: the smallest replies that
        fit stand in for theirs, and the version says so.

        Raises:
            SourceError: the function cannot stand alone; the message says what to change.
            ValidationError: a check failed, and nothing was saved.
            Conflict: the key is taken.
        """
        check_key(key)
        version = version_of(fn, isolation, timeout_s, memory_mb, environment, ask)
        fields = {"key": key, "name": name, "description": description, **version}
        grader = await self._transport.send(calls.create_grader(self._project, fields, threads))
        return AsyncGraderHandle.of(grader, self._scoring)

    async def python(
        self,
        *,
        key: str,
        fn: Callable[..., object] | None = None,
        source: str | None = None,
        **options: Unpack[GraderOptions],
    ) -> AsyncGraderHandle:
        """As `function`, for a grader that was written for OpenAI: `grade(sample, item)`, sync or async.

        It is given as a function or as its source. `sample` holds the completion, `item` is the thread's metadata.
        """
        grader = openai_grader(one_of(fn, source), packages=bool(options.get("environment")))
        return await self.function(key=key, fn=grader, **options)

    async def binary_judge(
        self,
        *,
        key: str,
        criteria: str,
        judge_model: str,
        examples: Sequence[Example] = (),
        system_template: str | None = None,
        user_template: str | None = None,
        template_variables: Mapping[str, Any] | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
        **options: Unpack[GraderOptions],
    ) -> AsyncGraderHandle:
        """Makes a grader by which a model of the project says whether a completion meets the criteria.

        The settings are those of `gradebox.judges.BinaryJudge`. The source that makes one is written by the service,
        proved like any other, and can be read, copied and edited.

        Raises:
            ValidationError: a check failed, and nothing was saved: the project has no such model, for one.
            Conflict: the key is taken.
        """
        config = {
            "criteria": criteria,
            "model": judge_model,
            "examples": list(examples) or None,
            "system_template": system_template,
            "user_template": user_template,
            "template_variables": template_variables,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "seed": seed,
        }
        return await self.of_kind(key=key, kind="binary_judge", config=config, **options)

    async def external(self, *, key: str, endpoint: str, **options: Unpack[GraderOptions]) -> AsyncGraderHandle:
        """Makes a grader by which an endpoint of the project, a reward server, scores.

        Raises as `binary_judge` does.
        """
        return await self.of_kind(key=key, kind="external", config={"endpoint": endpoint}, **options)

    async def judge(
        self,
        *,
        key: str,
        criterion: str | Mapping[str, Any] | Criterion,
        judge_model: str,
        steps: Literal[1, 2] = 1,
        to_evaluate: str | None = None,
        context_fields: ContextFields = None,
        check_positional_bias: bool = False,
        on_bias: OnBias = "keep",
        self_consistency: bool | int = False,
        feedback: bool = False,
        summary: bool = False,
        persona: bool = False,
        judge_description: str | None = None,
        examples: Sequence[DecidedCase] = (),
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
        **options: Unpack[GraderOptions],
    ) -> AsyncGraderHandle:
        """Makes a grader by which a model of the project chooses one of the options of a criterion.

        The settings are those of `gradebox.judges.DirectJudge`. Raises as `binary_judge` does.
        """
        config = {
            "criterion": criterion if isinstance(criterion, str | Mapping) else criterion.as_config(),
            "model": judge_model,
            "steps": steps,
            "to_evaluate": to_evaluate,
            "context_fields": context_fields,
            "check_positional_bias": check_positional_bias,
            "on_bias": on_bias,
            "self_consistency": self_consistency,
            "feedback": feedback,
            "summary": summary,
            "persona": persona,
            "judge_description": judge_description,
            "examples": list(examples) or None,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "seed": seed,
        }
        return await self.of_kind(key=key, kind="judge", config=config, **options)

    async def faithfulness(
        self,
        *,
        key: str,
        judge_model: str,
        documents: str | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
        **options: Unpack[GraderOptions],
    ) -> AsyncGraderHandle:
        """Makes a grader by which a model says how many of a completion's claims its context bears out.

        The settings are those of `gradebox.judges.Faithfulness`. Raises as `binary_judge` does.
        """
        config = {"model": judge_model, "documents": documents}
        drawn = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        return await self.of_kind(key=key, kind="faithfulness", config=config | drawn, **options)

    async def context_relevancy(
        self,
        *,
        key: str,
        judge_model: str,
        documents: str | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
        **options: Unpack[GraderOptions],
    ) -> AsyncGraderHandle:
        """Makes a grader by which a model says how many of a thread's documents help with its question.

        The settings are those of `gradebox.judges.ContextRelevancy`. Raises as `binary_judge` does.
        """
        config = {"model": judge_model, "documents": documents}
        drawn = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        return await self.of_kind(key=key, kind="context_relevancy", config=config | drawn, **options)

    async def answer_relevancy(
        self,
        *,
        key: str,
        judge_model: str,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
        **options: Unpack[GraderOptions],
    ) -> AsyncGraderHandle:
        """Makes a grader by which a model says how many of a completion's statements help with the question.

        The settings are those of `gradebox.judges.AnswerRelevancy`. Raises as `binary_judge` does.
        """
        config = {"model": judge_model, "temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        return await self.of_kind(key=key, kind="answer_relevancy", config=config, **options)

    async def multi_criteria(
        self,
        *,
        key: str,
        criteria: Sequence[str | Mapping[str, Any] | Criterion | CriterionItem],
        judge_model: str,
        normalize_scores: bool = True,
        settings: Mapping[str, Any] | None = None,
        **options: Unpack[GraderOptions],
    ) -> AsyncGraderHandle:
        """Makes a grader whose score is the sum of what several criteria score, by their weights.

        The settings are those of `gradebox.judges.MultiCriteria`; those of each of its direct judges, such as
        `{"self_consistency": 3}`, are in `settings`. Raises as `binary_judge` does.
        """
        own = {"criteria": [_as_json(one) for one in criteria], "model": judge_model}
        config = {**(settings or {}), **own, "normalize_scores": normalize_scores}
        return await self.of_kind(key=key, kind="multi_criteria", config=config, **options)

    async def pairwise_judge(
        self,
        *,
        key: str,
        criterion: str | Mapping[str, Any] | Criterion,
        judge_model: str,
        contests: Contests = "all_pairs",
        allow_ties: bool = False,
        check_positional_bias: bool = False,
        on_bias: OnBias = "keep",
        to_evaluate: str | None = None,
        context_fields: ContextFields = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
        **options: Unpack[GraderOptions],
    ) -> AsyncGraderHandle:
        """Makes a grader of groups by which a model of the project compares responses; the score of each is its win
        rate.

        The settings are those of `gradebox.judges.PairwiseJudge`. Raises as `binary_judge` does.
        """
        config = {
            "criterion": criterion if isinstance(criterion, str | Mapping) else criterion.as_config(),
            "model": judge_model,
            "contests": contests,
            "allow_ties": allow_ties,
            "check_positional_bias": check_positional_bias,
            "on_bias": on_bias,
            "to_evaluate": to_evaluate,
            "context_fields": context_fields,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "seed": seed,
        }
        return await self.of_kind(key=key, kind="pairwise_judge", config=config, **options)

    async def combine(
        self,
        *,
        key: str,
        parts: Mapping[str, str | PartConfig] | Sequence[str],
        normalize: bool = False,
        formula: str | None = None,
        **options: Unpack[GraderOptions],
    ) -> AsyncGraderHandle:
        """Makes a grader whose score is the weighted mean of those of other graders and judges, or what a formula makes
        of them.

        The settings are those of `gradebox.judges.Combine`. Raises as `binary_judge` does.
        """
        from gradebox.judges.combined_part import as_config

        config = {"parts": as_config(parts), "normalize": normalize, "formula": formula}
        return await self.of_kind(key=key, kind="combine", config=config, **options)

    async def checks(
        self, key: str, checks: Sequence[ThreadCheck | Mapping[str, Any]], **options: Unpack[GraderOptions]
    ) -> AsyncGraderHandle:
        """Makes a grader that a thread passes which passes all checks: those of `gradebox.checks`, or their JSON, such
        as `{"check": "contains", "text": "x"}`.

        Raises:
            ValueError: a check holds a function of its own, which belongs into a function grader.
            ValidationError: a check failed, and nothing was saved: one of them is none, for one.
            Conflict: the key is taken.
        """
        config = {"checks": [dict(one) if isinstance(one, Mapping) else one.config() for one in checks]}
        return await self.of_kind(key=key, kind="checks", config=config, **options)

    async def custom(self, *, key: str, name: str | None = None, description: str | None = None) -> AsyncGraderHandle:
        """Makes a grader whose scores come from outside, as from people: `batch.record` takes them.

        Raises:
            Conflict: the key is taken.
        """
        check_key(key)
        fields = {"key": key, "kind": "custom", "name": name, "description": description}
        grader = await self._transport.send(calls.create_grader(self._project, fields))
        return AsyncGraderHandle.of(grader, self._scoring)

    async def of_kind(
        self, *, key: str, kind: WrittenKind, config: Mapping[str, Any], **options: Unpack[GraderOptions]
    ) -> AsyncGraderHandle:
        """Makes a grader of a kind from its settings, as `Version.config` has them.

        Raises as `binary_judge` does.
        """
        check_key(key)
        fields = {"key": key, **kind_of(kind, config, options)}
        grader = await self._transport.send(calls.create_grader(self._project, fields, options.get("threads")))
        return AsyncGraderHandle.of(grader, self._scoring)


def _as_json(one: str | Mapping[str, Any] | Criterion | CriterionItem) -> Any:
    """A criterion, or an item that has one, as JSON holds it."""
    if isinstance(one, str):
        return one
    if isinstance(one, Mapping):
        return {name: _as_json(member) if name == "criterion" else member for name, member in one.items()}
    return one.as_config()
