"""Parses criteria, from a `Criterion`, a dict, a plain text, or the name of a predefined criterion."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from json import JSONDecodeError, loads
from typing import Any

from gradebox.judges.criteria import DIRECT, PAIRWISE
from gradebox.judges.criterion import Criterion, Option, yes_no
from gradebox.judges.means import is_number

_FEWEST = 2


def read(value: object, compares: bool = False) -> Criterion:
    """Parse a criterion. `compares`: whether it compares responses, so that it needs no options, and loses those that
    it has.

    Raises:
        ValueError: it is invalid; the message explains what is wrong.
    """
    if isinstance(value, str):
        return _read_text(value, compares)
    if isinstance(value, Criterion):
        return _checked(value, compares)
    if isinstance(value, Mapping):
        return _checked(_read_mapping(value, compares), compares)
    raise ValueError(f"a criterion is a text, or {_form(compares)}, and this is {value!r:.80}")


def field_of(criterion: object) -> str:
    """Return the field that holds the criterion of each thread, as in `{"field": "metadata.criterion"}`; empty if the
    criterion is the same for all. Raises ValueError if it names no field.
    """
    if not isinstance(criterion, Mapping) or set(criterion) != {"field"}:
        return ""
    field = criterion["field"]
    if not isinstance(field, str) or not field.strip():
        raise ValueError(f'criterion={{"field": …}} names a field, as "metadata.criterion", and not {field!r:.80}')
    return field


def _read_text(text: str, compares: bool) -> Criterion:
    stripped, known = text.strip(), DIRECT | (PAIRWISE if compares else {})
    if stripped in known:
        return _checked(known[stripped], compares)
    if stripped in PAIRWISE:
        raise ValueError(
            f"the criterion {stripped!r} compares responses and has no options: give it some, in {_form(compares)}"
        )
    if stripped.startswith("{"):
        try:
            return read(loads(stripped), compares)
        except (JSONDecodeError, RecursionError) as error:
            raise ValueError(f"the criterion begins as JSON and is none ({error}): {text!r:.80}") from None
    if stripped and not re.search(r"\s", stripped):
        # A single word is more often a misspelt name than a criterion in words.
        near = get_close_matches(stripped.lower(), known, 1, 0.8)
        if near or "_" in stripped:
            meant = f": {near[0]!r} is meant?" if near else ""
            raise ValueError(f"there is no predefined criterion {stripped!r:.80}{meant} Else say it in words")
    return _checked(yes_no(text), compares)


def _read_mapping(value: Mapping[str, Any], compares: bool) -> Criterion:
    if unknown := sorted(set(map(str, value)) - {*Criterion._fields}):
        raise ValueError(f"a criterion has no member {unknown[0]!r:.80}: write {_form(compares)}")
    if "description" not in value or not (compares or "options" in value):
        raise ValueError(f"a criterion has a description{'' if compares else ' and options'}: write {_form(compares)}")
    options = () if compares else value["options"]
    if not isinstance(options, list | tuple):
        raise ValueError(f"the options of a criterion are a list, and these are {options!r:.80}")
    given = {name: member for name, member in value.items() if member is not None or name == "context_fields"}
    return Criterion(**{**given, "options": tuple(map(_read_option, options))})


def _read_option(value: object) -> Option:
    if isinstance(value, str):
        return Option(value)
    if isinstance(value, Option):
        return value
    if isinstance(value, Mapping) and "name" in value and set(value) <= set(Option._fields):
        return Option(value["name"], value.get("description") or "", value.get("score"))
    raise ValueError(f'an option is {{"name", "description"?, "score"?}} or a text, and this is {value!r:.80}')


def _checked(criterion: Criterion, compares: bool) -> Criterion:
    """Raises ValueError if the criterion is invalid."""
    texts = (criterion.name, criterion.description, criterion.to_evaluate)
    if not all(isinstance(text, str) for text in texts) or not criterion.description.strip():
        raise ValueError(f"a criterion says in its description what is asked: write {_form(compares)}")
    if not criterion.name.isprintable() or not isinstance(criterion.higher_is_better, bool):
        raise ValueError(
            f"the name of a criterion is one line, and higher_is_better is true or false: write {_form(compares)}"
        )
    if compares:
        return criterion._replace(options=())
    options = tuple(map(_read_option, criterion.options))
    for option in options:
        if not isinstance(option.name, str) or not option.name.strip() or not option.name.isprintable():
            raise ValueError(f"an option of criterion {criterion.label!r} is {option.name!r:.80}, which is no name")
        if not isinstance(option.description, str):
            raise ValueError(f"the description of option {option.name!r} is no text: {option.description!r:.80}")
        if option.score is not None and not is_number(option.score):
            raise ValueError(f"the score of option {option.name!r} is a finite number, not {option.score!r:.80}")
    names = [option.name for option in options]
    if len(names) < _FEWEST or len(set(names)) < len(names):
        raise ValueError(f"criterion {criterion.label!r} has the options {names}: give at least two different ones")
    return criterion._replace(options=options)


def _form(compares: bool) -> str:
    options = "" if compares else '"options": [{"name": "…", "description": "…", "score": 1.0}, …], '
    return f'{{"description": "…", {options}"name"?, "to_evaluate"?, "context_fields"?, "higher_is_better"?}}'
