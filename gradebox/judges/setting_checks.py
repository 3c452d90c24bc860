"""Checks of settings that several judges have."""

from typing import Any, get_args


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise ValueError if the value of the setting is none of these, which are a `Literal`."""
    if value not in get_args(choices):
        raise ValueError(f"{name}= is one of {', '.join(map(repr, get_args(choices)))}, and not {value!r:.80}")


def check_flags(**flags: object) -> None:
    """Raise ValueError if one of these settings is not a bool."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name}= is true or false, and not {value!r:.80}")
