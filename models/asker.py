"""Stands in until the asker is merged."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import NamedTuple

from gradebox.outcome import Spent


class Who(NamedTuple):
    """Who."""

    project: str
    grader: str
    label: str
    batch: str = ""
    asks: Mapping[str, str] = {}
    keep: bool = True
    stand_in: bool = False


class Answer(NamedTuple):
    """Answer."""

    body: bytes
    spent: Spent


class Asker:
    """Asker."""

    def ask(self, request: bytes, who: Who, wanted: Callable[[], bool]) -> Future[Answer]:
        """Asks."""
        raise NotImplementedError
