"""The grader definitions in requests, as specified in OpenAI's reference."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

import msgspec

from api.dialects.openai import templates
from api.dialects.openai.problems import OpenAIProblem
from api.intake.mismatch import explained
from gradebox.judges.formula import Formula, FormulaError

GRADERS = 16
MESSAGES = 64
JSON_BYTES = 1 << 20  # for a grader, and for an item or a sample that is parsed here

Metric = Literal[
    "fuzzy_match", "bleu", "gleu", "meteor", "rouge_1", "rouge_2", "rouge_3", "rouge_4", "rouge_5", "rouge_l"
]
Operation = Literal["eq", "ne", "like", "ilike"]
_Named = Annotated[str, msgspec.Meta(max_length=200)]
_NO_COSINE = (
    "cosine compares embeddings, and no model here makes any: use fuzzy_match, bleu, gleu, meteor or rouge_1 to rouge_l"
)


class StringCheck(msgspec.Struct):
    """1 or 0: whether two texts are equal, or one contains the other."""

    kind: ClassVar[str] = "string_check"
    input: str
    reference: str
    operation: Operation
    name: _Named = ""


class TextSimilarity(msgspec.Struct):
    """From 0 to 1: the similarity of two texts."""

    kind: ClassVar[str] = "text_similarity"
    input: str
    reference: str
    evaluation_metric: Metric
    name: _Named = ""


class Python(msgspec.Struct):
    """A source with `grade(sample, item)`."""

    kind: ClassVar[str] = "python"
    source: str
    name: _Named = ""


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """One turn of a model's prompt. The content is a text, a part with a text, or a list of these."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | dict[str, Any] | list[Any]
    type: Literal["message"] | None = None


class Sampling(msgspec.Struct, forbid_unknown_fields=True):
    """Sampling parameters. None means the registered model's default."""

    seed: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    max_completions_tokens: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    top_p: float | None = None
    reasoning_effort: str | None = None

    def options(self) -> dict[str, float]:
        """The parameters that are set, by their names in `Model.chat`."""
        named = {"seed": self.seed, "temperature": self.temperature, "max_tokens": self.max_completions_tokens}
        return {name: value for name, value in named.items() if value is not None}


class ScoreModel(msgspec.Struct):
    """A number from a model, within a range."""

    kind: ClassVar[str] = "score_model"
    model: _Named
    input: Annotated[list[Message], msgspec.Meta(min_length=1, max_length=MESSAGES)]
    range: tuple[float, float] = (0.0, 1.0)
    sampling_params: Sampling = msgspec.field(default_factory=Sampling)
    name: _Named = ""


class LabelModel(msgspec.Struct):
    """1 if a model chooses one of the passing labels, else 0."""

    kind: ClassVar[str] = "label_model"
    model: _Named
    input: Annotated[list[Message], msgspec.Meta(min_length=1, max_length=MESSAGES)]
    labels: list[str]
    passing_labels: list[str]
    sampling_params: Sampling = msgspec.field(default_factory=Sampling)
    name: _Named = ""


class _Multi(msgspec.Struct):
    graders: dict[str, Any] | list[dict[str, Any]]
    calculate_output: str
    name: _Named = ""


class Multi(msgspec.Struct):
    """A formula over the scores of other graders."""

    kind: ClassVar[str] = "multi"
    graders: "Mapping[str, Single]"
    formula: Formula
    name: _Named = ""


Single = StringCheck | TextSimilarity | Python | ScoreModel | LabelModel
Grader = Single | Multi

_SINGLE: dict[str, type[Single]] = {kind.kind: kind for kind in get_args(Single)}
_WITHOUT_EFFECT = ("type", "id", "pass_threshold", "image_tag")
"""Members of OpenAI's graders that change no reward. Its evals add the `id` and use the `pass_threshold`."""
_KINDS = ", ".join([*_SINGLE, "multi"])
_TEXT_PARTS = ("text", "input_text", "output_text")
_OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "string_check": {"operation": get_args(Operation)},
    "text_similarity": {"evaluation_metric": get_args(Metric)},
}
_T = TypeVar("_T", bound=msgspec.Struct)


def read(value: Mapping[str, Any]) -> Grader:
    """Parses a grader. Raises OpenAIProblem with the reason if it is invalid, or cannot run here."""
    if value.get("type") != "multi":
        return _single(value, "grader")
    multi = _convert(value, _Multi, "grader")
    graders = _named(multi.graders)
    if not 0 < len(graders) <= GRADERS:
        raise OpenAIProblem(f"these are {len(graders)} graders, and a multi holds 1 to {GRADERS}", "grader.graders")
    read_ones = {name: _single(part, f"grader.graders.{name}") for name, part in graders.items()}
    try:
        return Multi(read_ones, Formula(multi.calculate_output, graders), multi.name)
    except FormulaError as error:
        raise OpenAIProblem(str(error), "grader.calculate_output") from error


def _single(value: Mapping[str, Any], param: str) -> Single:
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _SINGLE:
        if kind == "multi":
            raise OpenAIProblem("a multi cannot hold a multi: write one formula", f"{param}.type")
        raise OpenAIProblem(
            f"a grader has one of the types {_KINDS}, and this has {str(kind)[:100]!r}", f"{param}.type"
        )
    if kind == "text_similarity" and value.get("evaluation_metric") == "cosine":
        raise OpenAIProblem(_NO_COSINE, f"{param}.evaluation_metric", "unsupported-grader")
    for field, options in _OPTIONS.get(kind, {}).items():
        if field in value and value[field] not in options:
            raise OpenAIProblem(f"{field} is one of {', '.join(options)}", f"{param}.{field}")
    grader: Single = _convert(value, _SINGLE[kind], param)
    if isinstance(grader, ScoreModel | LabelModel):
        _check_model(grader, param)
    elif not isinstance(grader, Python):
        templates.check(grader.input, f"{param}.input")
        templates.check(grader.reference, f"{param}.reference")
    return grader


def texts_of(content: str | dict[str, Any] | list[Any], param: str) -> list[str]:
    """The texts of a message. Raises OpenAIProblem if it contains anything else."""
    texts = []
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) and part.get("type") in _TEXT_PARTS else part
        if not isinstance(text, str):
            raise OpenAIProblem(
                f"a part of the message is not text: models get only text, so write a string, or a part of "
                f"the type {' or '.join(_TEXT_PARTS)}",
                param,
                "unsupported-grader",
            )
        texts.append(text)
    return texts


def _check_model(grader: ScoreModel | LabelModel, param: str) -> None:
    for number, message in enumerate(grader.input):
        for text in texts_of(message.content, f"{param}.input[{number}]"):
            templates.check(text, f"{param}.input[{number}]")
    for name in ("top_p", "reasoning_effort"):
        if getattr(grader.sampling_params, name) is not None:
            raise OpenAIProblem(
                f"{name} cannot be sent with a grader's ask: leave it out", f"{param}.sampling_params.{name}"
            )
    if isinstance(grader, ScoreModel):
        low, high = grader.range
        if not low < high:
            raise OpenAIProblem(
                f"the range from {low} to {high} contains no numbers: write the lower bound first", f"{param}.range"
            )
        return
    labels = grader.labels
    if len(labels) < 2 or len(set(labels)) < len(labels) or not all(map(str.strip, labels)):
        raise OpenAIProblem("labels must be at least two different texts", f"{param}.labels")
    if template := next((label for label in labels if "{{" in label), None):
        raise OpenAIProblem(
            f"the label {template[:100]!r} looks like a template, and labels are not filled in: write the text itself, "
            "or compare by a python grader",
            f"{param}.labels",
        )
    if not set(grader.passing_labels) <= set(labels) or not grader.passing_labels:
        raise OpenAIProblem("passing_labels must be at least one of the labels", f"{param}.passing_labels")


def _named(graders: dict[str, Any] | list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The graders by name, from the three forms in use: a mapping, a list, and a single grader."""
    if isinstance(graders, dict) and not isinstance(graders.get("type"), str):
        named = graders
    else:
        parts = graders if isinstance(graders, list) else [graders]
        named = {str(part.get("name", "")): part for part in parts}
        if len(named) < len(parts):
            raise OpenAIProblem(
                "two graders have the same name: the formula could not tell them apart", "grader.graders"
            )
    wrong = next((name for name, part in named.items() if not isinstance(part, dict)), None)
    if wrong is not None:
        raise OpenAIProblem(f"the grader {wrong[:100]!r} is no object", "grader.graders")
    return named


def _convert(value: Mapping[str, Any], kind: type[_T], param: str) -> _T:
    """Parses a grader. Some clients send null for each member that is not set."""
    sent = {name: member for name, member in value.items() if member is not None}
    known = [field.name for field in msgspec.structs.fields(kind)]
    for name in sent:
        if name not in known and name not in _WITHOUT_EFFECT:
            raise _unknown(name[:100], known, param)
    try:
        return msgspec.convert(sent, kind)
    except msgspec.ValidationError as error:
        raise OpenAIProblem(f"the grader is invalid: {explained(error, kind)}", param) from error


def _unknown(name: str, known: list[str], param: str) -> OpenAIProblem:
    near = get_close_matches(name, known, 1)
    advice = f"did you mean {near[0]!r}?" if near else f"this type of grader has {', '.join(known)}"
    return OpenAIProblem(f"the grader has an unknown member {name!r}: {advice}", f"{param}.{name}")
