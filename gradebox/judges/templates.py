"""Prompt templates in Handlebars.

In addition to the engine's features, lists have a `length`. A prompt is not HTML, so `{{name}}` inserts a value without
escaping, like `{{{name}}}`. Printing a missing value or an object is an error: otherwise a prompt without the
completion would be judged.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dotpromptz_handlebars import Handlebars, StrictModeError

TEMPLATE_CHARACTERS = 65_536
RENDERED_CHARACTERS = 1 << 20
_PRINTED_OBJECT = "[object Object]"  # the engine's, as in Handlebars.js
_NESTED = 32  # maximum depth of nested blocks


class TemplateError(ValueError):
    """The template is invalid, or cannot be rendered with these values."""


class _List(list[Any]):
    """A list with a `length`. The engine sees it as a mapping with this member, and as a sequence."""

    def __contains__(self, name: object) -> bool:
        return name == "length"

    def __getitem__(self, key: Any) -> Any:
        return len(self) if key == "length" else super().__getitem__(key)

    def items(self) -> Iterator[tuple[int, Any]]:
        """The pairs that `#each` iterates over."""
        return enumerate(self)


Mapping.register(_List)


class Template:
    """A template that is compiled once and rendered many times."""

    def __init__(self, text: str, name: str = "template") -> None:
        """Raises TemplateError, whose message contains `name`."""
        if not isinstance(text, str) or len(text) > TEMPLATE_CHARACTERS:
            raise TemplateError(f"{name} is a text of at most {TEMPLATE_CHARACTERS:,} characters")
        self.name = name
        self._text = text
        engine = Handlebars(escape_html=False, strict=True, max_depth=_NESTED)
        engine.unregister_helper("log")
        try:
            self._render = engine.compile(text)
        except RecursionError:  # before ValueError: the engine's own error is a subclass of both
            raise TemplateError(f"{name} is nested too deep: at most {_NESTED} levels") from None
        except ValueError as error:
            raise TemplateError(f"{name} is no template: {error}") from None

    def render(self, values: Mapping[str, Any]) -> str:
        """Render the template with these values.

        Raises:
            TemplateError: it prints a missing value or an object, calls an unknown helper, or its result is longer than
                2^20 characters.
        """
        try:
            text = self._render(_with_lengths(values))
        except StrictModeError as error:
            there = ", ".join(sorted(map(str, values)))
            raise TemplateError(
                f"{self.name} prints {error.path}, which is not there: there are {there:.1000}. What may be missing "
                f"stands inside {{{{#if {error.path}}}}}"
            ) from None
        except RecursionError:
            raise TemplateError(f"{self.name} is nested too deep") from None
        except ValueError as error:
            raise TemplateError(f"{self.name} cannot be filled in: {error}") from None
        if len(text) > RENDERED_CHARACTERS:
            raise TemplateError(f"{self.name} comes to more than {RENDERED_CHARACTERS:,} characters: print less")
        if _PRINTED_OBJECT in text and _PRINTED_OBJECT not in f"{self._text}{values}":
            raise TemplateError(
                f"{self.name} prints an object as {_PRINTED_OBJECT}: print its members, as {{{{metadata.answer}}}}, or "
                "each of them inside {{#each}}"
            )
        return text


def _with_lengths(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _with_lengths(member) for name, member in value.items()}
    return _List(map(_with_lengths, value)) if isinstance(value, list | tuple) else value
