# Made from gradebox/client/_async by scripts/unasync. Do not edit it: edit what it is made from.
"""The methods that create graders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from gradebox._openai import openai_grader
from gradebox.client._sync.handles import GraderHandle
from gradebox.client._sync.transport import Transport
from gradebox.client.calls import grader_calls
from gradebox.client.thread_line import Thread
from gradebox.client.versions import (
    Ask,
    Function,
    GraderOptions,
    as_json,
    check_isolation,
    check_key,
    check_options,
    one_of,
    source_of,
)
from gradebox.schemas import Isolation, WrittenKind

if TYPE_CHECKING:
    from gradebox.checks import ThreadCheck
    from gradebox.client._sync.graders import Graders
    from gradebox.judges import Criterion, CriterionItem, DecidedCase, Example
    from gradebox.judges.combined_part import PartConfig
    from gradebox.judges.criterion import ContextFields
    from gradebox.judges.direct_judge import OnBias
    from gradebox.judges.pairwise_judge import Contests


class Creation:
    """The methods that create graders: `function`, `python`, and one for each kind, such as `judge`."""

    def __init__(self, transport: Transport, project: str, graders: Graders) -> None:
        self._transport = transport
        self._project = project
        self._graders = graders

    def __call__(self, key: str, fn: Function, **options: Unpack[GraderOptions]) -> GraderHandle:
        """As `function`."""
        check_options(options, creates=True)
        return self.function(key=key, fn=fn, **options)

    def function(
        self,
        key: str,
        fn: Function,
        *,
        name: str | None = None,
        description: str | None = None,
        isolation: Isolation | None = None,
        timeout_s: float | None = None,
        memory_mb: int | None = None,
        threads: Sequence[Thread] | None = None,
        environment: str | None = None,
        ask: Ask | None = None,
    ) -> GraderHandle:
        """Runs the five checks on a function and saves it as the first version of a new grader.

        Args:
            key: the key of the grader in the project.
            fn: the function, or its source as a string.
            name: a name for people to read.
            description: what the grader looks for.
            isolation: how completions are isolated from each other: `auto`, `batch` or `completion`.
            timeout_s: the timeout for one completion, in seconds.
            memory_mb: the memory limit, in MiB.
            threads: the threads for the test run, for a grader that needs metadata that the default thread lacks. They
                stay with the grader, for its later checks.
            environment: the environment whose packages the grader may import, such as `math` (its newest build) or
                `math@2`.
            ask: with `stand-in`, the test run sends no ask to models and endpoints; the smallest replies that fit
                replace theirs, and the version records this. By default, and with `real`, they are asked.

        Raises:
            SourceError: the function cannot stand alone; the message says what to change.
            ValidationError: a check failed, and nothing was saved.
            Conflict: the key is taken.
        """
        check_key(key)
        check_isolation(isolation)
        fields = {
            "key": key,
            "name": name,
            "description": description,
            "source": source_of(fn, environment),
            "isolation": isolation,
            "timeout_s": timeout_s,
            "memory_mb": memory_mb,
            "environment": environment,
            "ask": ask,
        }
        grader = self._transport.send(grader_calls.create_grader(self._project, fields, threads))
        return GraderHandle.of(grader, self._graders)

    def python(
        self,
        *,
        key: str,
        fn: Callable[..., object] | None = None,
        source: str | None = None,
        **options: Unpack[GraderOptions],
    ) -> GraderHandle:
        """As `function`, for a grader that was written for OpenAI: `grade(sample, item)`, sync or async.

        `sample` holds the completion, `item` is the thread's metadata.

        Args:
            key: the key of the grader in the project.
            fn: the grader as a function; give `fn` or `source`.
            source: the source of the grader.
            options: as for `function`.
        """
        check_options(options, creates=True)
        grader = openai_grader(one_of(fn, source), packages=bool(options.get("environment")))
        return self.function(key=key, fn=grader, **options)

    def binary_judge(
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
    ) -> GraderHandle:
        """Creates a grader in which a model of the project decides whether a completion meets the criteria.

        The settings are those of `gradebox.judges.BinaryJudge`; `judge_model` is its `model`, and `options` are those
        of `function`. The service writes the grader's source and checks it like any other; you can read, copy and edit
        it.

        Raises:
            ValidationError: a check failed, and nothing was saved; for example, the project has no such model.
            Conflict: the key is taken.
        """
        config = {
            "criteria": criteria,
            "judge_model": judge_model,
            "examples": list(examples) or None,
            "system_template": system_template,
            "user_template": user_template,
            "template_variables": template_variables,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "seed": seed,
        }
        return self.of_kind(key=key, kind="binary_judge", config=config, **options)

    def external(self, *, key: str, endpoint: str, **options: Unpack[GraderOptions]) -> GraderHandle:
        """Creates a grader in which an endpoint of the project, a reward server, scores the completions.

        Raises the same exceptions as `binary_judge`.
        """
        return self.of_kind(key=key, kind="external", config={"endpoint": endpoint}, **options)

    def judge(
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
    ) -> GraderHandle:
        """Creates a grader in which a model of the project chooses one of the options of a criterion.

        The settings are those of `gradebox.judges.DirectJudge`. Raises the same exceptions as `binary_judge`.
        """
        config = {
            "criterion": as_json(criterion),
            "judge_model": judge_model,
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
        return self.of_kind(key=key, kind="judge", config=config, **options)

    def faithfulness(
        self,
        *,
        key: str,
        judge_model: str,
        documents: str | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
        **options: Unpack[GraderOptions],
    ) -> GraderHandle:
        """Creates a grader in which a model counts the claims of a completion that its context supports.

        The settings are those of `gradebox.judges.Faithfulness`. Raises the same exceptions as `binary_judge`.
        """
        config = {"judge_model": judge_model, "documents": documents}
        drawn = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        return self.of_kind(key=key, kind="faithfulness", config=config | drawn, **options)

    def context_relevancy(
        self,
        *,
        key: str,
        judge_model: str,
        documents: str | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
        **options: Unpack[GraderOptions],
    ) -> GraderHandle:
        """Creates a grader in which a model counts the documents of a thread that help with its question.

        The settings are those of `gradebox.judges.ContextRelevancy`. Raises the same exceptions as `binary_judge`.
        """
        config = {"judge_model": judge_model, "documents": documents}
        drawn = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        return self.of_kind(key=key, kind="context_relevancy", config=config | drawn, **options)

    def answer_relevancy(
        self,
        *,
        key: str,
        judge_model: str,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
        **options: Unpack[GraderOptions],
    ) -> GraderHandle:
        """Creates a grader in which a model counts the statements of a completion that help with the question.

        The settings are those of `gradebox.judges.AnswerRelevancy`. Raises the same exceptions as `binary_judge`.
        """
        config = {"judge_model": judge_model, "temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        return self.of_kind(key=key, kind="answer_relevancy", config=config, **options)

    def multi_criteria(
        self,
        *,
        key: str,
        criteria: Sequence[str | Mapping[str, Any] | Criterion | CriterionItem],
        judge_model: str,
        normalize_scores: bool = True,
        settings: Mapping[str, Any] | None = None,
        **options: Unpack[GraderOptions],
    ) -> GraderHandle:
        """Creates a grader whose score is the weighted sum of the scores of several criteria.

        The settings are those of `gradebox.judges.MultiCriteria`; `settings` holds the settings of its direct judges,
        such as `{"self_consistency": 3}`. Raises the same exceptions as `binary_judge`.
        """
        own = {"criteria": [as_json(one) for one in criteria], "judge_model": judge_model}
        config = {**(settings or {}), **own, "normalize_scores": normalize_scores}
        return self.of_kind(key=key, kind="multi_criteria", config=config, **options)

    def pairwise_judge(
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
    ) -> GraderHandle:
        """Creates a grader of groups in which a model of the project compares responses. A score is a win rate.

        The settings are those of `gradebox.judges.PairwiseJudge`. Raises the same exceptions as `binary_judge`.
        """
        config = {
            "criterion": as_json(criterion),
            "judge_model": judge_model,
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
        return self.of_kind(key=key, kind="pairwise_judge", config=config, **options)

    def combine(
        self,
        *,
        key: str,
        parts: Mapping[str, str | PartConfig] | Sequence[str],
        normalize: bool = False,
        formula: str | None = None,
        **options: Unpack[GraderOptions],
    ) -> GraderHandle:
        """Creates a grader that combines the scores of other graders and judges by a weighted mean or a formula.

        The settings are those of `gradebox.judges.Combine`. Raises the same exceptions as `binary_judge`.
        """
        from gradebox.judges.combined_part import as_config

        config = {"parts": as_config(parts), "normalize": normalize, "formula": formula}
        return self.of_kind(key=key, kind="combine", config=config, **options)

    def checks(
        self, key: str, checks: Sequence[ThreadCheck | Mapping[str, Any]], **options: Unpack[GraderOptions]
    ) -> GraderHandle:
        """Creates a grader that a thread passes if it passes all of the given checks.

        Args:
            key: the key of the grader in the project.
            checks: checks of `gradebox.checks`, or their JSON form, such as `{"check": "contains", "text": "x"}`.
            options: as for `function`.

        Raises:
            ValueError: a check holds a function of the caller, which belongs in a function grader.
            ValidationError: one of the five checks failed, and nothing was saved; for example, `checks` has an entry
                that is not a check.
            Conflict: the key is taken.
        """
        config = {"checks": [dict(one) if isinstance(one, Mapping) else one.config() for one in checks]}
        return self.of_kind(key=key, kind="checks", config=config, **options)

    def custom(self, *, key: str, name: str | None = None, description: str | None = None) -> GraderHandle:
        """Creates a grader for external scores, such as those given by people. `batch.record` records them.

        Raises:
            Conflict: the key is taken.
        """
        check_key(key)
        fields = {"key": key, "kind": "custom", "name": name, "description": description}
        grader = self._transport.send(grader_calls.create_grader(self._project, fields))
        return GraderHandle.of(grader, self._graders)

    def of_kind(
        self, *, key: str, kind: WrittenKind, config: Mapping[str, Any], **options: Unpack[GraderOptions]
    ) -> GraderHandle:
        """Creates a grader of a kind from its settings, in the form of `Version.config`.

        Raises the same exceptions as `binary_judge`.
        """
        check_options(options, creates=True)
        check_key(key)
        check_isolation(options.get("isolation"))
        threads = options.pop("threads", None)
        fields = {"key": key, "kind": kind, "config": config, **options}
        grader = self._transport.send(grader_calls.create_grader(self._project, fields, threads))
        return GraderHandle.of(grader, self._graders)
