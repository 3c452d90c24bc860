"""Converts a line of JSON to the thread that a grader receives."""

from json import JSONDecodeError, JSONDecoder
from typing import Any, Protocol

from gradebox.thread import StringThread
from gradebox.thread_forms import no_constant
from sandbox.guest.child.thread_decoder import ThreadDecoder

_BLANK = " \t\r\n"
_SHOWN = 30  # characters of a line
_CONTAINERS = frozenset((dict, list))
_new_thread = StringThread.__new__


class BadInput(Exception):
    """A line that the grader cannot take."""


class NoThread(BadInput):
    """A value that is no thread."""


class LineReader(Protocol):
    """Reads the input of a grader."""

    def read(self, line: bytes) -> Any:
        """Reads the input in one line. Raises BadInput."""


class ThreadReader:
    """Reads threads, each from the bytes of one line."""

    def __init__(self, most_bytes: int, deepest: int, decoder: ThreadDecoder, keep_unknown: bool = False) -> None:
        """Lines are first read by `decoder`. `keep_unknown` is as in `StringThread.from_object`."""
        self._keep_unknown = keep_unknown
        self._most_bytes = most_bytes
        self._deepest = deepest
        self._decode, self._errors = decoder
        self._scan = JSONDecoder(parse_constant=no_constant).raw_decode

    def read(self, line: bytes) -> StringThread:
        """Reads the thread of a line. Its "id" is checked but not kept, because the host has it.

        Raises:
            BadInput: the line is no thread; the message has the reason.
        """
        if len(line) > self._most_bytes:
            return self._read_carefully(line)
        try:
            usual = self._decode(line)
        except self._errors:
            return self._read_carefully(line)
        thread = _new_thread(StringThread)
        thread._turns = [(message.role, message.content) for message in usual.messages]
        thread.metadata = usual.metadata
        return thread

    def _read_carefully(self, line: bytes) -> StringThread:
        try:
            return self.thread_of(self.read_value(line))
        except NoThread as problem:
            raise BadInput(f"the line is no thread: {problem}") from None

    def read_value(self, line: bytes) -> Any:
        """Reads the JSON value of a line, without a check of its depth.

        Raises:
            BadInput: the line is no JSON, or is too long.
        """
        if len(line) > self._most_bytes:
            raise BadInput(f"the line has {len(line)} bytes, and a thread may have {self._most_bytes}")
        try:
            text = line.decode()
            value, end = self._scan(text, 0 if text[:1] == "{" else _start(text))
        except UnicodeDecodeError as error:
            raise BadInput(f"the line is not UTF-8: byte 0x{line[error.start]:02x} at position {error.start}") from None
        except RecursionError:
            raise BadInput(f"the line is nested more than {self._deepest} levels deep") from None
        except ValueError as error:
            raise BadInput(f"the line is not JSON: {_why(error, text)}"[:400]) from None
        if end != len(text) and (rest := text[end:]) != "\n" and rest.strip(_BLANK):
            raise BadInput(f"the line is not JSON: something follows the value at position {end}")
        return value

    def thread_of(self, value: Any, above: int = 0) -> StringThread:
        """Converts a JSON value, which is below `above` levels of its line, to a thread.

        Raises:
            NoThread, BadInput: the value is no thread; the message has the reason.
        """
        try:
            thread = StringThread.from_object(value, self._keep_unknown)
        except ValueError as error:
            raise NoThread(str(error)) from None
        self._check_depth(above, thread.metadata, *thread.raw_messages())
        check_id(value)
        return thread

    def _check_depth(self, above: int, *parts: dict[str, Any]) -> None:
        """Refuses nesting at which recursive code might fail."""
        level: list[Any] = list(parts)
        depth = above + 1  # the thread itself
        while level:
            depth += 1
            if depth > self._deepest:
                raise BadInput(f"the line is nested more than {self._deepest} levels deep")
            level = [
                member
                for container in level
                for member in (container.values() if type(container) is dict else container)
                if type(member) in _CONTAINERS
            ]


def _why(error: ValueError, text: str) -> str:
    """What is wrong with a line, and where: a line is always line 1 of what is decoded."""
    if not isinstance(error, JSONDecodeError):
        return str(error)
    found = text[error.pos : error.pos + _SHOWN].strip(_BLANK)
    where = f"where it has {found!r}" if found else "where it ends"
    return f"{error.msg.removesuffix(' at')} at position {error.pos}, {where}"


def _start(text: str) -> int:
    """The position of the value, after white space and a byte order mark."""
    start = len(text) - len(text.lstrip(_BLANK + "\ufeff"))
    if start == len(text):
        raise BadInput("the line is blank")
    return start


def check_id(value: dict[str, Any]) -> None:
    """Raises BadInput if "id" is a value that an outcome cannot carry. Half a surrogate pair is one: another id in its
    place would be that of another thread.
    """
    identity = value.get("id")
    if type(identity) is str and len(identity) <= 256:
        try:
            identity.encode()
        except UnicodeEncodeError:
            raise BadInput('"id" holds half a surrogate pair (an emoji that was cut in two?): send it whole') from None
    elif identity is not None and (type(identity) is not int or abs(identity) >= 1 << 63):
        raise BadInput('"id" must be a string of at most 256 characters, or a whole number of 64 bits')
