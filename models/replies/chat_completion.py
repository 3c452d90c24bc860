"""Decodes a chat completion, the answer of a model's server. Nothing is guessed."""

import msgspec

from models.errors import AskFailed, TokenUsage
from models.replies import error_answers, token_counts
from models.replies.answer_json import ANSWER_BYTES
from models.replies.error_answers import NOT_DECODED, REPLY_CHARACTERS, reported, reported_text
from models.replies.finish_reasons import ending
from models.replies.secret_text import Secrets

_THOUGHTS = ("thinking", "reasoning")  # types of parts: Mistral's is "thinking"
_NULL = msgspec.Raw(b"null")
_CONTENT_BYTES = 6 * ANSWER_BYTES  # each byte of the longest answer may be written as \u0041


class ServerReply(msgspec.Struct, frozen=True):
    """A complete reply."""

    text: str
    finish_reason: str
    has_logprobs: bool
    usage: TokenUsage


class _Message(msgspec.Struct):
    content: msgspec.Raw = _NULL
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None
    logprobs: msgspec.Raw = _NULL


class _Part(msgspec.Struct):
    """One of several parts of a reply."""

    type: str
    text: str = ""


class _Choices(msgspec.Struct, array_like=True):
    """Only the first one is decoded."""

    first: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Completion(msgspec.Struct):
    """Unneeded parts are not decoded: a server may send 4 MiB of empty lists, and decoding them would block all
    projects.
    """

    choices: _Choices
    usage: msgspec.Raw = _NULL


_completion = msgspec.json.Decoder(_Completion)
_choice = msgspec.json.Decoder(_Choice)
_content = msgspec.json.Decoder(str | list[_Part] | None)


def read(body: bytes, secrets: Secrets) -> ServerReply:
    """Return the reply of a completion. Raises AskFailed if it is invalid, incomplete or refused. Removes `secrets`."""
    usage = token_counts.counted(body)
    try:
        if failed := error_answers.failure(body, secrets):
            raise failed
        choice = _first_choice(body, secrets)
        text = _text_of(choice, secrets)
        _check_ending(choice, text, secrets)
    except AskFailed as error:
        error.usage = usage
        raise
    has_logprobs = bytes(choice.logprobs).strip() != b"null"
    return ServerReply(text, choice.finish_reason or "", has_logprobs, usage)


def _first_choice(body: bytes, secrets: Secrets) -> _Choice:
    try:
        first = _completion.decode(body).choices.first
        if first is not msgspec.UNSET:
            return _choice.decode(first)
    except NOT_DECODED as error:
        raise AskFailed(
            "invalid_reply",
            f"the server answered, but with no chat completion ({reported(body, secrets)}): check that the base URL is "
            "that of an OpenAI-compatible server, mostly ending in /v1",
            reply=reported(body, secrets, REPLY_CHARACTERS),
        ) from error
    raise AskFailed("invalid_reply", "the completion has no choices: ask again, or look into the server's log")


def _text_of(choice: _Choice, secrets: Secrets) -> str:
    """The text of a reply, or of its parts, if all of these are texts; what the model thought is left out."""
    content = choice.message.content
    if len(content) > _CONTENT_BYTES:  # not decoded: many small parts would block all projects
        raise AskFailed("invalid_reply", f"the reply has {len(content)} bytes: ask for less, or set `max_tokens`")
    try:
        found = _content.decode(content)
    except NOT_DECODED as error:
        message = f"the reply holds something else than text ({error}): check that the model answers in text"
        raise AskFailed("invalid_reply", message, reply=reported(bytes(content), secrets, REPLY_CHARACTERS)) from error
    if found is None or isinstance(found, str):
        return found or ""
    if others := [part.type for part in found if part.type not in ("text", *_THOUGHTS)]:
        message = f"the reply holds a part of type {others[0][:80]!r}: check that the model answers only in text"
        raise AskFailed("invalid_reply", message, reply=reported(bytes(content), secrets, REPLY_CHARACTERS))
    return "".join(part.text for part in found if part.type == "text")


def _check_ending(choice: _Choice, text: str, secrets: Secrets) -> None:
    """Raises AskFailed unless the model ended the reply, and it has a text."""
    reply, reason = reported_text(text, secrets), choice.finish_reason
    said = reported_text(reason or "", secrets)[:80]
    end = ending(reason)
    if choice.message.refusal or end == "refused":
        why = reported((choice.message.refusal or said.replace("_", " ")).encode("utf-8", "replace"), secrets)
        message = f"the model refused ({why}): change the messages, or take another model"
        raise AskFailed("refused", message, reply=reply or why)
    if end == "cut_off":
        message = "the reply was cut off at the server's bound of tokens: raise `max_tokens`"
        raise AskFailed("cut_off", message, reply=reply)
    if end == "broken_off":
        message = f"the server broke the reply off (finish_reason {said!r}): ask again, or look into the server's log"
        raise AskFailed("unreachable", message, True, reply=reply)
    if end == "unknown":
        message = f"it is unknown whether the reply is whole (finish_reason {said!r}): look into the server's log"
        raise AskFailed("invalid_reply", message, reply=reply)
    if not text:
        raise AskFailed("invalid_reply", "the reply is empty: check that the model answers in text")
