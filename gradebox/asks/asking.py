"""The interface that answers a grader's asks, and the registry of the names that a grader may ask."""

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from json import JSONEncoder
from typing import Any, Protocol

from gradebox.asks.errors import ModelError

MOST_ASKS = 64  # per completion
MOST_ROUNDS = 16
REQUEST_BYTES = 256 << 10  # per ask
KNOWN_BYTES = 4 << 20  # of all answers and stored values of one completion
MOST_NAMED = 32
NAME_CHARACTERS = 128

Request = dict[str, Any]
Answer = dict[str, Any]


class Answerer(Protocol):
    """Answers asks and stores values between runs."""

    async def answer(self, request: bytes) -> Answer:
        """Answer a request, which `encoded` made, with `{"reply": …}` or `{"error": {…}}`."""

    def remembered(self, name: str) -> tuple[bool, Any]:
        """Return whether an earlier run stored a value of this name that this run has not used yet, and the value."""

    def remember(self, request: bytes) -> None:
        """Store a value for later runs."""


class Pause:
    """Awaited by an answerer without an event loop. It suspends the whole run until its asks are answered."""

    def __await__(self) -> Generator["Pause", None, None]:
        yield self


_encode = JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_asker: ContextVar[Answerer | None] = ContextVar("asker", default=None)
_used: ContextVar[list[str] | None] = ContextVar("used", default=None)
_named: set[str] = set()
_is_settled = False  # whether the module body has run: names added later would be missing from the version


@contextmanager
def using(asker: Answerer) -> Iterator[None]:
    """Answer the asks inside the block with `asker`."""
    token = _asker.set(asker)
    try:
        yield
    finally:
        _asker.reset(token)


@contextmanager
def noting_used() -> Iterator[list[str]]:
    """Collect the names of what is used inside the block, also by tasks that it starts; see `note_used`."""
    used: list[str] = []
    token = _used.set(used)
    try:
        yield used
    finally:
        _used.reset(token)
        note_used(*used)


def note_used(*names: str) -> None:
    """Note that an answer, named by the digest of its request, or a stored value of a name is used here."""
    if (used := _used.get()) is not None:
        used += names


def asker_of() -> Answerer | None:
    """The current answerer, or None."""
    return _asker.get()


def current() -> Answerer:
    """The current answerer. Raises RuntimeError if there is none."""
    asker = asker_of()
    if asker is None:
        raise RuntimeError(
            "asks of a grader cannot be answered here: run it in a service, or use `gradebox.testing` in your own "
            "tests, and ask in `grade` itself, not in a thread that it starts"
        )
    return asker


def name(kind: str, key: str) -> str:
    """Register that the grader asks this `model`, `endpoint` or `grader`, and return the key.

    Raises:
        ValueError: the key is invalid, or exceeds the number of names.
        RuntimeError: inside a sandbox, the module body has already run.
    """
    if not isinstance(key, str) or not 0 < len(key) <= NAME_CHARACTERS or not key.isprintable():
        raise ValueError(f"{key!r:.80} is no name of a {kind}: give the key that it has in the project")
    asked = f"{kind}:{key}"
    if _is_settled and asked not in _named:
        raise RuntimeError(
            f"the {kind} {key!r} is named while `grade` runs: name it at module level, so that the version knows what "
            "it asks"
        )
    if len(_named) >= MOST_NAMED and asked not in _named:
        raise ValueError(f"a grader may ask at most {MOST_NAMED} models, endpoints and graders: {key!r} is one more")
    _named.add(asked)
    return key


def settle() -> tuple[str, ...]:
    """Close the registry and return its names, sorted. The sandbox calls it after the module body has run."""
    global _is_settled
    _is_settled = True
    return tuple(sorted(_named))


def encoded(request: Request) -> bytes:
    """Encode a request. Its own members are sorted, so that equal asks have equal bytes. The members of a schema, a
    thread or a value keep their order: a model writes its reply in the schema's order, and a grader may read the order.

    Raises:
        ModelError: of kind `too_much`, if the request is too large.
        ValueError: JSON cannot hold it.
    """
    try:
        data = _bytes_of(_encode(dict(sorted(request.items()))), request["ask"])
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"what is asked cannot be sent as JSON: {error}") from None
    if len(data) > REQUEST_BYTES:
        raise ModelError("too_much", f"an ask of {len(data)} bytes, and one may have {REQUEST_BYTES}: ask for less")
    return data


def _bytes_of(text: str, asked: str) -> bytes:
    """Half a surrogate pair, which occurs in completions, reaches another grader as it is, and a reward server, which
    may not take it, as the text of its escape. `Model` replaces it in messages before.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        if asked == "endpoint":
            text = re.sub("[\ud800-\udfff]", r"\\\g<0>", text)
        elif asked != "grader":
            raise
        return text.encode("utf-8", "backslashreplace")


def is_sendable(request: Request) -> bool:
    """Whether a request is small enough."""
    try:
        encoded(request)
    except ModelError:
        return False
    return True


async def ask(request: Request) -> Any:
    """Send a request and return its reply.

    Raises:
        ModelError: there is no reply.
        RuntimeError: there is no answerer.
        ValueError: JSON cannot hold the request.
    """
    answer = await current().answer(encoded(request))
    if (error := answer.get("error")) is not None:
        raise ModelError(error["kind"], error["message"], bool(error.get("retryable", False)), error.get("reply") or "")
    return answer["reply"]
