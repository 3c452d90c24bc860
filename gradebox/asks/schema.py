"""Validation of JSON against a schema, for the keywords that servers support in structured output.

Supported are `type`, `enum`, `const`, `properties`, `required`, `additionalProperties` (true or false), `items`,
`minItems`, `maxItems`, `minLength`, `maxLength`, `minimum`, `maximum`, `anyOf`; and `title`, `description`, `default`,
which do not constrain anything. Any other keyword is rejected, because it would not be checked.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gradebox.same_json import same

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0,
}
_SILENT = frozenset(("title", "description", "default"))
# Of other values of these keywords, nothing would be checked, or the wrong thing: `"required": "answer"` is six names.
_FORMS: dict[str, tuple[Any, str]] = {
    "properties": (Mapping, "an object"),
    "additionalProperties": (bool, "true or false here"),
    **dict.fromkeys(("enum", "required", "anyOf"), (list | tuple, "a list")),
    **dict.fromkeys(
        ("minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum"), (int | float, "a number")
    ),
}
_KNOWN = _SILENT | {"type", "const", "items", *_FORMS}
_DEEPEST = 20


def object_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object that has all of these properties and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [*properties],
        "additionalProperties": False,
    }


def checked(schema: Any, depth: int = 0) -> None:
    """Raise ValueError if this is not a schema, or if it has an unsupported keyword."""
    if not isinstance(schema, Mapping):
        raise ValueError(f"schema= takes a JSON Schema as a dict, and holds {schema!r:.80}")
    if depth > _DEEPEST:
        raise ValueError(f"the schema is nested more than {_DEEPEST} levels deep")
    if unknown := sorted(set(schema) - _KNOWN):
        raise ValueError(f"the schema has `{unknown[0]}`, which is not checked here: use {', '.join(sorted(_KNOWN))}")
    types = schema.get("type", [])
    for kind in types if isinstance(types, list) else [types]:
        if not isinstance(kind, str) or kind not in _TYPES:
            raise ValueError(f"the schema has the type {kind!r:.80}: there are {', '.join(_TYPES)}")
    for name, (form, called) in _FORMS.items():
        value = schema.get(name)
        if name in schema and (not isinstance(value, form) or (isinstance(value, bool) and form is not bool)):
            raise ValueError(f"`{name}` of the schema is {called}, and not {value!r:.80}")
    if empty := [name for name in ("type", "enum", "anyOf") if schema.get(name) in ([], ())]:
        raise ValueError(f"`{empty[0]}` of the schema is empty, so that no value fits it: give it at least one element")
    if not all(isinstance(name, str) for name in schema.get("required", [])):
        raise ValueError(f"`required` of the schema is a list of names, and not {schema['required']!r:.80}")
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    for each in [*inner, schema["items"]] if "items" in schema else inner:
        checked(each, depth + 1)


def problem(value: Any, schema: Mapping[str, Any], place: str = "the value") -> str | None:
    """Describe, for a model, how a value fails to fit a schema that was `checked`; None if it fits."""
    if "anyOf" in schema and all(problem(value, each, place) for each in schema["anyOf"]):
        return f"{place} fits none of its forms"
    types = schema.get("type")
    if types is not None and not any(_TYPES[kind](value) for kind in (types if isinstance(types, list) else [types])):
        return f"{place} must be of type {types if isinstance(types, str) else ' or '.join(types)}"
    if "enum" in schema and not any(same(value, each) for each in schema["enum"]):
        return f"{place} must be one of {schema['enum']!r:.300}"
    if "const" in schema and not same(value, schema["const"]):
        return f"{place} must be {schema['const']!r:.100}"
    if isinstance(value, dict):
        return _of_object(value, schema, place)
    if isinstance(value, list):
        return _of_array(value, schema, place)
    if isinstance(value, str):
        return _within(len(value), schema.get("minLength"), schema.get("maxLength"), f"the length of {place}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _within(value, schema.get("minimum"), schema.get("maximum"), place)
    return None


def _of_object(value: dict[str, Any], schema: Mapping[str, Any], place: str) -> str | None:
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            return f'"{name}" is missing in {place}'
    for name, member in value.items():
        if name in properties:
            if found := problem(member, properties[name], f'"{name}"'):
                return found
        elif schema.get("additionalProperties") is False:
            return f'{place} has a member "{name[:80]}", and may have only {", ".join(properties)}'
    return None


def _of_array(value: list[Any], schema: Mapping[str, Any], place: str) -> str | None:
    if found := _within(len(value), schema.get("minItems"), schema.get("maxItems"), f"the number of items in {place}"):
        return found
    for number, item in enumerate(value):
        if "items" in schema and (found := problem(item, schema["items"], f"item {number} of {place}")):
            return found
    return None


def _within(number: float, least: float | None, most: float | None, place: str) -> str | None:
    if least is not None and number < least:
        return f"{place} must be at least {least}"
    if most is not None and number > most:
        return f"{place} must be at most {most}"
    return None
