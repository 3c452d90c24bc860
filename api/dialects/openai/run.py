"""Runs a grader on one sample."""

import time

from api.access.callers import Caller
from api.dialects.openai import model_graders, source, templates
from api.dialects.openai.answers import Errors, Metadata, RunAnswer
from api.dialects.openai.formula import Undefined
from api.dialects.openai.graders import Grader, LabelModel, Multi, Python, ScoreModel, Single, StringCheck
from api.dialects.openai.refused import OpenAIProblem
from api.dialects.openai.sample import Sample
from api.dialects.openai.similarity import similarity
from api.dialects.openai.templates import Unresolved
from api.services import Services
from sandbox.errors import InfrastructureError
from sandbox.limits import MAX_TIMEOUT_S


def run(services: Services, caller: Caller, grader: Grader, sample: Sample) -> RunAnswer:
    """Returns the reward of a sample, or why it has none.

    Raises:
        OpenAIProblem: the grader is at fault, whatever the sample.
        InfrastructureError: no sandbox is available.
    """
    started = time.monotonic()
    errors = Errors()
    tokens: dict[str, int] = {}
    scores: dict[str, float | None] = {}
    if isinstance(grader, Multi):
        reward = _combined(services, caller, grader, sample, errors, tokens, scores)
    else:
        reward = _score(services, caller, grader, sample, errors, tokens, "grader", MAX_TIMEOUT_S)
    spent = time.monotonic() - started
    metadata = Metadata(grader.name, grader.kind, spent, scores, errors)
    if isinstance(grader, ScoreModel | LabelModel):
        metadata.sampled_model_name = grader.model
    if tokens:
        metadata.token_usage = sum(tokens.values())
    return RunAnswer(reward, metadata, dict(scores), tokens)


def _combined(
    services: Services,
    caller: Caller,
    multi: Multi,
    sample: Sample,
    errors: Errors,
    tokens: dict[str, int],
    scores: dict[str, float | None],
) -> float | None:
    python = sum(isinstance(grader, Python) for grader in multi.graders.values())
    for name, grader in multi.graders.items():
        timeout_s = MAX_TIMEOUT_S / max(1, python)  # together they have the time of one grader
        scores[name] = _score(services, caller, grader, sample, errors, tokens, f"grader.graders.{name}", timeout_s)
    known = {name: score for name, score in scores.items() if score is not None}
    if len(known) < len(scores):
        return None
    try:
        return multi.formula.value(known)
    except Undefined:
        errors.formula_parse_error = True
        return None


def _score(
    services: Services,
    caller: Caller,
    grader: Single,
    sample: Sample,
    errors: Errors,
    tokens: dict[str, int],
    param: str,
    timeout_s: float,
) -> float | None:
    if isinstance(grader, Python):
        return _python(services, caller, grader, sample, errors, f"{param}.source", timeout_s)
    try:
        if isinstance(grader, ScoreModel | LabelModel):
            return _model(services, caller, grader, sample, errors, tokens, param)
        text = templates.render(grader.input, sample.names, f"{param}.input")
        reference = templates.render(grader.reference, sample.names, f"{param}.reference")
    except Unresolved as unresolved:
        if unresolved.name == "sample.output_json":
            errors.sample_parse_error = True
        else:
            errors.invalid_variable_error = True
        return None
    if isinstance(grader, StringCheck):
        return float(_holds(grader.operation, text, reference))
    return similarity(grader.evaluation_metric, text, reference, f"{param}.evaluation_metric")


def _holds(operation: str, text: str, reference: str) -> bool:
    if operation == "eq":
        return text == reference
    if operation == "ne":
        return text != reference
    if operation == "like":
        return reference in text
    return reference.casefold() in text.casefold()


def _python(
    services: Services, caller: Caller, grader: Python, sample: Sample, errors: Errors, param: str, timeout_s: float
) -> float | None:
    outcome = source.run(services, caller, grader.source, sample.line, param, timeout_s)
    if outcome.not_applicable is not None:
        errors.other_error = True
        errors.python_grader_runtime_error_details = f"not_applicable: {outcome.not_applicable}"
        return None
    if outcome.error is None:
        return outcome.score
    if outcome.error.retryable:
        raise InfrastructureError(outcome.error.message)
    if outcome.error.kind == "bad_input":
        raise OpenAIProblem(
            f"the sample and the item cannot be made into a thread: {outcome.error.message}", "item", "invalid-request"
        )
    errors.add(outcome.error)
    return None


def _model(
    services: Services,
    caller: Caller,
    grader: ScoreModel | LabelModel,
    sample: Sample,
    errors: Errors,
    tokens: dict[str, int],
    param: str,
) -> float | None:
    outcome = model_graders.run(services, caller, grader, sample, param)
    if (spent := outcome.spent) is not None:
        tokens[grader.model] = tokens.get(grader.model, 0) + spent.input_tokens + spent.output_tokens
    if outcome.error is None:
        return outcome.score
    if outcome.error.kind == "infrastructure":
        raise InfrastructureError(outcome.error.message)
    errors.add(outcome.error)
    return None
