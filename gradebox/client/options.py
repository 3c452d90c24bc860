"""Keyword arguments that a method takes as a TypedDict."""

from collections.abc import Mapping


def check_known(options: Mapping[str, object], kind: type, noun: str) -> None:
    """Raises TypeError if the TypedDict `kind` lacks one of the options of this noun, as if it is misspelt."""
    known = kind.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"{name}= is no option of {noun}: pass one of {', '.join(f'{one}=' for one in known)}")
