"""The source of a grader of a kind: a few lines that create it, for users to read, copy and edit.

The source is generated without creating the grader: settings that the class rejects fail when the source is validated.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

_WIDTH = 100
_DEEPEST = 20
_INDENT = "    "
_NUMBER = (int, float)


class _Setting(NamedTuple):
    """A setting. None stands for the default, unless `is_nullable` is true."""

    description: str  # of its types
    types: tuple[type, ...]
    is_required: bool = False
    is_nullable: bool = False


class _Kind(NamedTuple):
    class_name: str
    variable: str  # in the source
    settings: dict[str, _Setting]
    module: str = "gradebox.judges"
    is_of_groups: bool = False  # whether it grades groups of threads


_TEXT = _Setting("a text", (str,))
_FLAG = _Setting("true or false", (bool,))
_MODEL = _Setting("the key of a model", (str,), is_required=True)
_FIELD = _Setting("the name of a field", (str,))
_CRITERION = _Setting("a text or an object", (str, dict), is_required=True)
_DRAWN = {
    "temperature": _Setting("a number", _NUMBER, is_nullable=True),
    "max_tokens": _Setting("an integer", (int,)),
    "seed": _Setting("an integer", (int,)),
}
_DIRECT = {
    "steps": _Setting("1 or 2", (int,)),
    "to_evaluate": _FIELD,
    "context_fields": _Setting("a name, a list or an object", (str, list, tuple, dict)),
    "check_positional_bias": _FLAG,
    "on_bias": _Setting("one of keep, tie, error", (str,)),
    "self_consistency": _Setting("true, false or an integer", (bool, int)),
    "feedback": _FLAG,
    "summary": _FLAG,
    "persona": _FLAG,
    "judge_description": _TEXT,
    "examples": _Setting("a list of decided cases", (list, tuple)),
    **_DRAWN,
}
_KINDS = {
    "binary_judge": _Kind(
        "BinaryJudge",
        "judge",
        {
            "criteria": _TEXT._replace(is_required=True),
            "judge_model": _MODEL,
            "examples": _Setting("a list of examples", (list, tuple)),
            "system_template": _TEXT,
            "user_template": _TEXT,
            "template_variables": _Setting("an object", (dict,)),
            **_DRAWN,
        },
    ),
    "judge": _Kind("DirectJudge", "judge", {"criterion": _CRITERION, "judge_model": _MODEL, **_DIRECT}),
    "multi_criteria": _Kind(
        "MultiCriteria",
        "judge",
        {
            "criteria": _Setting("a list of criteria or of items", (list, tuple), is_required=True),
            "judge_model": _MODEL,
            "normalize_scores": _FLAG,
            **_DIRECT,
        },
    ),
    "faithfulness": _Kind("Faithfulness", "judge", {"judge_model": _MODEL, "documents": _FIELD, **_DRAWN}),
    "context_relevancy": _Kind("ContextRelevancy", "judge", {"judge_model": _MODEL, "documents": _FIELD, **_DRAWN}),
    "answer_relevancy": _Kind("AnswerRelevancy", "judge", {"judge_model": _MODEL, **_DRAWN}),
    "external": _Kind(
        "ExternalEndpoint", "external", {"endpoint": _Setting("the key of an endpoint", (str,), is_required=True)}
    ),
    "combine": _Kind(
        "Combine",
        "combined",
        {
            "parts": _Setting("an object of names and parts, or a list of keys of graders", (dict, list, tuple), True),
            "normalize": _FLAG,
            "formula": _TEXT,
        },
    ),
    "pairwise_judge": _Kind(
        "PairwiseJudge",
        "judge",
        {
            "criterion": _CRITERION,
            "judge_model": _MODEL,
            "contests": _Setting("one of all_pairs, at_once", (str,)),
            "allow_ties": _FLAG,
            **{name: _DIRECT[name] for name in ("check_positional_bias", "on_bias", "to_evaluate", "context_fields")},
            **_DRAWN,
        },
        is_of_groups=True,
    ),
    "checks": _Kind(
        "Checks", "checks", {"checks": _Setting("a list of checks", (list, tuple), True)}, "gradebox.checks"
    ),
}
KINDS = tuple(_KINDS)


class SettingForm(NamedTuple):
    """The input field of a setting in a form: `text`, `number`, `flag`, `json`; or `mixed`, a text or JSON."""

    name: str
    description: str
    form: str
    is_required: bool


def forms_of(kind: str) -> list[SettingForm]:
    """Return all settings of a kind, required ones first."""
    found = [
        SettingForm(name, one.description, _form(one.types), one.is_required)
        for name, one in _KINDS[kind].settings.items()
    ]
    return sorted(found, key=lambda one: not one.is_required)


def _form(types: tuple[type, ...]) -> str:
    if types == (str,):
        return "text"
    if types == (bool,):
        return "flag"
    if set(types) <= set(_NUMBER):
        return "number"
    return "mixed" if str in types else "json"


def class_of(kind: str) -> tuple[str, str]:
    """Return the module and the name of the class of a kind."""
    return _KINDS[kind].module, _KINDS[kind].class_name


def settled(kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the settings of a grader of this kind, and drop those that stand for a default. The model may be named
    `model`, as in the class.

    Raises:
        ValueError: there is no such kind, or a setting is invalid; the message explains what is wrong.
    """
    if kind not in _KINDS:
        raise ValueError(f"there is no kind {kind!r:.80}: there are {', '.join(KINDS)}")
    known = _KINDS[kind].settings
    if "judge_model" in known and "model" in config:
        config = {"judge_model": config["model"], **{name: of for name, of in config.items() if name != "model"}}
    if unknown := sorted(set(config) - set(known)):
        raise ValueError(f"config has the member {unknown[0]!r:.80}, and a {kind} takes {', '.join(known)}")
    found = {
        name: config[name]
        for name, setting in known.items()
        if name in config and (config[name] is not None or setting.is_nullable)
    }
    for name, setting in known.items():
        if setting.is_required and not found.get(name):
            raise ValueError(f"config.{name} is missing: it is {setting.description}")
        value = found.get(name)
        is_flag = isinstance(value, bool) and bool not in setting.types  # in Python a bool is an int too
        if value is not None and (is_flag or not isinstance(value, setting.types)):
            raise ValueError(f"config.{name} is {setting.description}, and this is {value!r:.80}")
    return found


def arguments_of(kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings by the names that the class of the kind has for them. Raises ValueError as `settled`."""
    return {("model" if name == "judge_model" else name): value for name, value in settled(kind, config).items()}


def source_of(kind: str, config: Mapping[str, Any]) -> str:
    """Generate the source of a grader of this kind.

    Raises:
        ValueError: see `settled`; or a value is nested more than 20 levels deep.
    """
    found, of = arguments_of(kind, config), _KINDS[kind]
    settings = "".join(f"{_INDENT}{name}={_literal(value, 1)},\n" for name, value in found.items())
    if of.is_of_groups:
        imported, given, returned = "Score, StringThread", "threads: list[StringThread]", "list[Score | Exception]"
    else:
        imported, given, returned = "StringThread", "thread: StringThread", "float"
    parameter = given.partition(":")[0]
    return (
        f"from gradebox import {imported}\n"
        f"from {of.module} import {of.class_name}\n\n"
        f"{of.variable} = {of.class_name}(\n{settings})\n\n\n"
        f"async def grade({given}) -> {returned}:\n"
        f"{_INDENT}return await {of.variable}({parameter})\n"
    )


def _literal(value: object, depth: int) -> str:
    """A JSON value as a Python literal, on one line if it is short."""
    if depth > _DEEPEST:
        raise ValueError(f"config is nested more than {_DEEPEST} levels deep")
    if isinstance(value, str):
        return _text(value)
    if not isinstance(value, dict | list | tuple):
        return repr(value)
    if isinstance(value, dict):
        parts = [f"{_text(str(name))}: {_literal(member, depth + 1)}" for name, member in value.items()]
    else:
        parts = [_literal(member, depth + 1) for member in value]
    left, right = ("{", "}") if isinstance(value, dict) else ("[", "]")
    short = f"{left}{', '.join(parts)}{right}"
    if len(short) <= _WIDTH and "\n" not in short:
        return short
    indent = _INDENT * (depth + 1)
    return left + "".join(f"\n{indent}{part}," for part in parts) + f"\n{_INDENT * depth}{right}"


def _text(text: str) -> str:
    """A string literal. Several lines stay several lines, unless a character needs escaping."""
    lines = text.split("\n")
    if '"' in text or "\\" in text or not all(map(str.isprintable, lines)):
        return repr(text)
    return f'"{text}"' if len(lines) == 1 else f'"""\\\n{text}"""'
