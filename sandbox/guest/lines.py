"""From a line of JSON to the thread that a grader is given."""

from _json import make_scanner  # what `json` itself uses; importing all of `json` would cost a cold sandbox 10 ms
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gradebox.thread import StringThread

_BLANK = " \t\r\n"


class BadInput(Exception):
    """A line that is no thread."""


class Reader:
    """Reads threads, each from the bytes of one line."""

    def __init__(self, most_bytes: int, deepest: int) -> None:
        self._most_bytes = most_bytes
        self._deepest = deepest
        context: Any = SimpleNamespace(
            strict=True,
            object_hook=None,
            object_pairs_hook=None,
            parse_float=float,
            parse_int=int,
            parse_constant={"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}.__getitem__,
            memo={},
        )
        self._scan: Callable[[str, int], tuple[object, int]] = make_scanner(context)

    def read(self, line: bytes) -> tuple[StringThread, str | int | None]:
        """The thread of a line, and its "id" where it has one.

        Raises:
            BadInput: the line is no thread; the message says why.
        """
        if len(line) > self._most_bytes:
            raise BadInput(f"the line has {len(line)} bytes, and a thread may have {self._most_bytes}")
        value = self._parse(line)
        try:
            thread = StringThread.from_object(value)
        except ValueError as error:
            raise BadInput(str(error)) from None
        return thread, _identity(value)

    def _parse(self, line: bytes) -> object:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise BadInput(f"the line is not UTF-8: byte 0x{line[error.start]:02x} at position {error.start}") from None
        start = 0
        if text[:1] != "{":
            start = len(text) - len(text.lstrip(_BLANK + "\ufeff"))
            if start == len(text):
                raise BadInput("the line is blank")
        if text.count("{") + text.count("[") > self._deepest:
            self._check_depth(text)
        try:
            value, end = self._scan(text, start)
        except StopIteration as error:
            raise BadInput(f"the line is not JSON: a value is missing at position {error.value}") from None
        except (ValueError, RecursionError) as error:
            raise BadInput(f"the line is not JSON: {error}"[:300]) from None
        if end != len(text) and text[end:].strip(_BLANK):
            raise BadInput(f"the line is not JSON: something follows the value at position {end}")
        return value

    def _check_depth(self, text: str) -> None:
        """Counts nesting without recursion, brackets inside strings left out."""
        depth = deepest = 0
        for number, part in enumerate(_unescaped(text).split('"')):
            if number % 2:
                continue
            for character in part:
                if character in "[{":
                    depth += 1
                    deepest = max(deepest, depth)
                elif character in "]}":
                    depth -= 1
        if deepest > self._deepest:
            raise BadInput(f"the line is nested {deepest} levels deep, and a thread may have {self._deepest}")


def _unescaped(text: str) -> str:
    """The text with its escaped backslashes and quotes taken out, so that every quote opens or closes a string."""
    return text.replace("\\\\", "").replace('\\"', "")


def _identity(value: object) -> str | int | None:
    identity = value.get("id") if type(value) is dict else None
    if identity is None or (type(identity) is str and len(identity) <= 256):
        return identity
    if type(identity) is int and abs(identity) < 1 << 63:
        return identity
    raise BadInput('"id" must be a string of at most 256 characters, or a whole number of 64 bits')
