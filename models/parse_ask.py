"""Parses the asks of a grader. They come out of a sandbox, so every bound is checked here too."""

from typing import Annotated, Any, Literal

import msgspec

from gradebox import thread_forms
from gradebox.asks.asking import NAME_CHARACTERS, REQUEST_BYTES
from gradebox.score import is_too_deep
from runtime import slow_numbers

MESSAGES = 10_000
DEPTH = 24  # of a schema, and of a thread

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_CHARACTERS)]


class RequestError(ValueError):
    """The data is not a valid request."""


class RequestTooLarge(RequestError):
    """A request is too large or too deeply nested."""


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn."""

    role: str
    content: str


class _ModelMessage(Message, frozen=True, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant"]


class Thread(msgspec.Struct, frozen=True):
    """The thread that an endpoint scores."""

    messages: list[Message]
    metadata: dict[str, Any] = {}


class _Named(msgspec.Struct, frozen=True):
    """An ask of a model, an endpoint or a grader."""

    name: _Name

    @property
    def asked(self) -> str:
        """What is asked, such as `model:small-judge`."""
        return f"{self.__struct_config__.tag}:{self.name}"


class ModelRequest(_Named, frozen=True, forbid_unknown_fields=True, tag_field="ask", tag="model"):
    """An ask for a chat completion."""

    messages: Annotated[list[_ModelMessage], msgspec.Meta(min_length=1, max_length=MESSAGES)]
    schema: dict[str, Any] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    sample: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0


class EndpointRequest(_Named, frozen=True, forbid_unknown_fields=True, tag_field="ask", tag="endpoint"):
    """An ask for the reward of a thread."""

    thread: dict[str, Any]


class GraderRequest(_Named, frozen=True, forbid_unknown_fields=True, tag_field="ask", tag="grader"):
    """An ask for another grader's score of a thread, which is passed on unchanged."""

    thread: msgspec.Raw


class OnceRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="ask", tag="once"):
    """A value to store for later runs."""

    name: Annotated[str, msgspec.Meta(max_length=300)]
    value: msgspec.Raw
    used: list[str] = []


Request = ModelRequest | EndpointRequest | GraderRequest | OnceRequest

_request: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_without_numbers: msgspec.json.Decoder[GraderRequest | OnceRequest] = msgspec.json.Decoder(GraderRequest | OnceRequest)


def parse(data: bytes) -> Request:
    """Parse a request.

    Raises:
        RequestTooLarge: it is too large or too deeply nested.
        RequestError: it is invalid.
    """
    if len(data) > REQUEST_BYTES:
        raise RequestTooLarge(f"an ask of {len(data)} bytes, and one may have {REQUEST_BYTES}: ask for less")
    if _is_slow(data):
        raise RequestTooLarge(f"an ask that is not read: {slow_numbers.REASON}")
    try:
        request = _decoded(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"this ask cannot be answered ({error}): use the classes of the package gradebox") from None
    except RecursionError:
        raise RequestTooLarge(_too_deep()) from None
    nested: Any = request.schema if isinstance(request, ModelRequest) else None
    if isinstance(request, EndpointRequest):
        nested = request.thread
    if is_too_deep(nested, DEPTH):
        raise RequestTooLarge(_too_deep())
    return request


def _is_slow(data: bytes) -> bool:
    """Whether a request has many numbers that take long to read. A thread for a grader and the value of a `once` are
    not read.
    """
    if not slow_numbers.are_many(data):
        return False
    try:
        _without_numbers.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return False


def _decoded(data: bytes) -> Request:
    """Decodes a request. The thread of an ask of a grader may hold half a surrogate pair, for which msgspec refuses the
    whole text: then a copy of the same length without any is decoded, and the thread, the last member, is cut out of
    the original.
    """
    try:
        return _request.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if b"\\ud" not in data:
            raise
        readable = data.replace(b"\\ud", b"\\ue")
        request = _request.decode(readable)
        if not isinstance(request, GraderRequest) or not readable.endswith(bytes(request.thread) + b"}"):
            raise
        return msgspec.structs.replace(request, thread=msgspec.Raw(data[-1 - len(request.thread) : -1]))


def read_thread(request: EndpointRequest) -> Thread:
    """Return the thread of a request, with each message's content as text. Raises RequestError if it is invalid."""
    try:
        turns, metadata, _ = thread_forms.read(request.thread)
    except ValueError as error:
        raise RequestError(f"the thread to be scored is invalid: {error}") from None
    return Thread([Message(role, content) for role, content in turns], metadata)


def _too_deep() -> str:
    return f"an ask that is nested more than {DEPTH} levels deep: make it flatter"
