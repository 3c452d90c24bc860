"""The names of options that users give as keyword arguments."""

from collections.abc import Iterable, Mapping


def check_known(options: Iterable[str], known: Mapping[str, object], noun: str) -> None:
    """Raises TypeError if one of the options of this noun is not among those `known`, as if it is misspelt."""
    for name in options:
        if name not in known:
            raise TypeError(f"{name}= is no option of {noun}: pass one of {', '.join(f'{one}=' for one in known)}")
