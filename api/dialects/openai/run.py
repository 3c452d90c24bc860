"""Runs a grader on one sample."""

import time

import msgspec

from api.access.callers import Caller
from api.dialects.openai import model_graders, python_graders, templates
from api.dialects.openai.answers import Errors, Metadata, RunAnswer
from api.dialects.openai.graders import Grader, LabelModel, Multi, Python, ScoreModel, Single, StringCheck
from api.dialects.openai.problems import OpenAIProblem
from api.dialects.openai.sample import Sample
from api.dialects.openai.similarity import similarity
from api.dialects.openai.templates import Unresolved
from api.services import Services
from gradebox.judges.formula import Undefined
from gradebox.outcome import OutcomeError
from gradebox.schemas import Limits
from sandbox.errors import InfrastructureError

_SHOWN = 200  # characters of a template's name in an error


def run(services: Services, caller: Caller, grader: Grader, sample: Sample) -> RunAnswer:
    """Returns the reward of a sample, or why it has none.

    Raises:
        OpenAIProblem: the grader is at fault, whatever the sample.
        InfrastructureError: no sandbox is available.
    """
    started = time.monotonic()
    one = _Run(services, caller, sample)
    reward = one.combined(grader) if isinstance(grader, Multi) else one.score(grader, caller.limits.timeout_s)
    metadata = Metadata(grader.name, grader.kind, time.monotonic() - started, one.scores, one.errors)
    if isinstance(grader, ScoreModel | LabelModel):
        metadata.sampled_model_name = grader.model
    if one.tokens:
        metadata.token_usage = sum(one.tokens.values())
    return RunAnswer(reward, metadata, one.scores, one.tokens)


class _Run:
    """One run on a sample.

    Attributes:
        errors: the reasons why there is no reward.
        tokens: the tokens used, by model.
        scores: the scores of the graders of a multi.
    """

    def __init__(self, services: Services, caller: Caller, sample: Sample) -> None:
        self._services = services
        self._caller = caller
        self._sample = sample
        self.errors = Errors()
        self.tokens: dict[str, int] = {}
        self.scores: dict[str, float | None] = {}

    def combined(self, multi: Multi) -> float | None:
        """The value of the formula; None if a grader has no score, or the formula has no value."""
        python = sum(isinstance(grader, Python) for grader in multi.graders.values())
        timeout_s = self._caller.limits.timeout_s / max(1, python)  # together they have the time of one grader
        for name, grader in multi.graders.items():
            self.scores[name] = self.score(grader, timeout_s, name)
        known = {name: score for name, score in self.scores.items() if score is not None}
        if len(known) < len(self.scores):
            return None
        try:
            return multi.formula.value(known)
        except Undefined as undefined:
            self.errors.formula_parse_error = True
            self.errors.add_detail(f"formula: {undefined}")
            return None

    def score(self, grader: Single, timeout_s: float, name: str | None = None) -> float | None:
        """The score of one grader; None if it has none. `name` is its name in a multi."""
        param = "grader" if name is None else f"grader.graders.{name}"
        if isinstance(grader, Python):
            return self._python(grader, name, f"{param}.source", timeout_s)
        try:
            if isinstance(grader, ScoreModel | LabelModel):
                return self._model(grader, name, param)
            text = templates.render(grader.input, self._sample.names, f"{param}.input")
            reference = templates.render(grader.reference, self._sample.names, f"{param}.reference")
        except Unresolved as unresolved:
            if unresolved.name == "sample.output_json":
                self.errors.sample_parse_error = True
            else:
                self.errors.invalid_variable_error = True
                self.errors.add_detail(str(unresolved)[:_SHOWN], name)
            return None
        if isinstance(grader, StringCheck):
            return float(_holds(grader.operation, text, reference))
        return similarity(self._caller, grader.evaluation_metric, text, reference, f"{param}.evaluation_metric")

    def _python(self, grader: Python, name: str | None, param: str, timeout_s: float) -> float | None:
        outcome = python_graders.run(self._services, self._caller, grader.source, self._sample.line, param, timeout_s)
        if outcome.not_applicable is not None:
            self.errors.other_error = True
            self.errors.add_detail(f"not_applicable: {outcome.not_applicable}", name)
            return None
        if outcome.error is None:
            return outcome.score
        if outcome.error.retryable:
            raise InfrastructureError(outcome.error.message)
        if outcome.error.kind == "bad_input":
            detail = f"the sample and the item cannot be made into a thread: {outcome.error.message}"
            raise OpenAIProblem(detail, "item", "invalid-request")
        self.errors.add(_explained(outcome.error, timeout_s, self._caller.limits), name)
        return None

    def _model(self, grader: ScoreModel | LabelModel, name: str | None, param: str) -> float | None:
        outcome = model_graders.run(self._services, self._caller, grader, self._sample, param)
        if (spent := outcome.spent) is not None:
            used = spent.input_tokens + spent.output_tokens
            self.tokens[grader.model] = self.tokens.get(grader.model, 0) + used
        if outcome.error is None:
            return outcome.score
        if outcome.error.kind == "infrastructure":
            raise InfrastructureError(outcome.error.message)
        self.errors.add(outcome.error, name)
        return None


def _explained(error: OutcomeError, timeout_s: float, limits: Limits) -> OutcomeError:
    """The error without the advice to raise a limit, because these graders have no settings."""
    if error.kind == "timeout":
        most = limits.timeout_s
        of = "" if timeout_s == most else f", an equal part of the {most:g} s of all python graders"
        message = f"`grade` took longer than {timeout_s:g} s{of}. Look for an endless loop or a slow regular expression"
    elif error.kind == "memory" and "`memory_mb`" in error.message:
        message = f"the processes of `grade` together wanted more than {limits.memory_mb:,} MiB of memory: use less"
    else:
        return error
    return msgspec.structs.replace(error, message=message)


def _holds(operation: str, text: str, reference: str) -> bool:
    if operation == "eq":
        return text == reference
    if operation == "ne":
        return text != reference
    if operation == "like":
        return reference in text
    return reference.casefold() in text.casefold()
