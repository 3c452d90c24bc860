"""The graders that requests bring, as they stand in OpenAI's reference."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

import msgspec

from api.dialects.openai import templates
from api.dialects.openai.formula import Formula
from api.dialects.openai.refused import OpenAIProblem

GRADERS = 16
JSON_BYTES = 1 << 20  # of a grader, and of an item or a sample that is looked at here

Metric = Literal[
    "fuzzy_match", "bleu", "gleu", "meteor", "rouge_1", "rouge_2", "rouge_3", "rouge_4", "rouge_5", "rouge_l"
]
Operation = Literal["eq", "ne", "like", "ilike"]
_Named = Annotated[str, msgspec.Meta(max_length=200)]
_NO_MODEL = "needs a language model, and this service has none: write it as a python grader, or as a multi without it"
_REFUSED = {"score_model": _NO_MODEL, "label_model": _NO_MODEL}
_NO_COSINE = (
    "cosine compares embeddings of a language model, and this service has none: use fuzzy_match, bleu, gleu, meteor "
    "or rouge_1 to rouge_l"
)


class StringCheck(msgspec.Struct):
    """1 or 0: whether two texts are the same, or one holds the other."""

    kind: ClassVar[str] = "string_check"
    input: str
    reference: str
    operation: Operation
    name: _Named = ""


class TextSimilarity(msgspec.Struct):
    """From 0 to 1: how alike two texts are."""

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


class _Multi(msgspec.Struct):
    graders: dict[str, Any] | list[dict[str, Any]]
    calculate_output: str
    name: _Named = ""


class Multi(msgspec.Struct):
    """What a formula makes of the scores of others."""

    kind: ClassVar[str] = "multi"
    graders: Mapping[str, StringCheck | TextSimilarity | Python]
    formula: Formula
    name: _Named = ""


Single = StringCheck | TextSimilarity | Python
Grader = Single | Multi

_SINGLE: dict[str, type[Single]] = {kind.kind: kind for kind in (StringCheck, TextSimilarity, Python)}
_KINDS = ", ".join([*_SINGLE, "multi"])
_OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "string_check": {"operation": get_args(Operation)},
    "text_similarity": {"evaluation_metric": get_args(Metric)},
}
_T = TypeVar("_T")


def read(value: Mapping[str, Any]) -> Grader:
    """A grader. Raises OpenAIProblem, which says what is wrong, where it is none, or none that can be run here."""
    if value.get("type") != "multi":
        return _single(value, "grader")
    multi = _convert(value, _Multi, "grader")
    graders = _named(multi.graders)
    if not 0 < len(graders) <= GRADERS:
        raise OpenAIProblem(f"these are {len(graders)} graders, and a multi holds 1 to {GRADERS}", "grader.graders")
    read_ones = {name: _single(part, f"grader.graders.{name}") for name, part in graders.items()}
    return Multi(read_ones, Formula(multi.calculate_output, graders), multi.name)


def _single(value: Mapping[str, Any], param: str) -> Single:
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _SINGLE:
        if kind in _REFUSED:
            raise OpenAIProblem(f"a {kind} grader {_REFUSED[str(kind)]}", f"{param}.type", "unsupported-grader")
        if kind == "multi":
            raise OpenAIProblem("a multi cannot hold a multi: write one formula", f"{param}.type")
        raise OpenAIProblem(
            f"a grader has one of the types {_KINDS}, and this has {str(kind)[:100]!r}", f"{param}.type"
        )
    if kind == "text_similarity" and value.get("evaluation_metric") == "cosine":
        raise OpenAIProblem(_NO_COSINE, f"{param}.evaluation_metric", "unsupported-grader")
    for field, options in _OPTIONS.get(kind, {}).items():
        if value.get(field) not in options:
            raise OpenAIProblem(f"{field} is one of {', '.join(options)}", f"{param}.{field}")
    grader: Single = _convert(value, _SINGLE[kind], param)
    if not isinstance(grader, Python):
        templates.check(grader.input, f"{param}.input")
        templates.check(grader.reference, f"{param}.reference")
    return grader


def _named(graders: dict[str, Any] | list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By name, from the three forms that are in use: a mapping, a list, and one grader alone."""
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
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise OpenAIProblem(f"the grader is not as it should be: {error}", param) from error
