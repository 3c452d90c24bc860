"""Strict parsing of model replies, and the meaning of error responses."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import msgspec

from gradebox.schemas import ModelFailure
from models import secret_text
from models.errors import AskFailed, TokenUsage

_LONGEST_PAUSE_S = 3600.0
_LOOKED_AT = 16_384  # bytes of an answer that are decoded for display
_SHOWN_CHARACTERS = 500
REPLY_CHARACTERS = 4096
_MOST_TOKENS = 1 << 24  # upper bound on a reported count, so that Redis can represent its cost at any price


class ServerReply(msgspec.Struct, frozen=True):
    """A complete reply."""

    text: str
    finish_reason: str
    has_logprobs: bool
    usage: TokenUsage


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None
    logprobs: msgspec.Raw = msgspec.Raw(b"null")


class _Usage(msgspec.Struct):
    prompt_tokens: msgspec.Raw = msgspec.Raw(b"null")
    completion_tokens: msgspec.Raw = msgspec.Raw(b"null")


class _Completion(msgspec.Struct):
    """Unneeded parts are not decoded: a server may send 4 MiB of empty lists, and decoding them would block all
    projects.
    """

    choices: list[msgspec.Raw]
    usage: msgspec.Raw = msgspec.Raw(b"null")


class _Coded(msgspec.Struct):
    error: Any = None


_completion = msgspec.json.Decoder(_Completion)
_choice = msgspec.json.Decoder(_Choice)
_usage = msgspec.json.Decoder(_Usage)
_count = msgspec.json.Decoder(int)
_coded = msgspec.json.Decoder(_Coded)


def read(body: bytes, secret: str) -> ServerReply:
    """Return the reply of a completion. Raises AskFailed if it is invalid, incomplete, or refused. Removes `secret`."""
    try:
        found = _completion.decode(body)
        choice = _choice.decode(found.choices[0]) if found.choices else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AskFailed(
            "invalid_reply",
            f"the server answered, but with no chat completion ({reported(body, secret)}): check that the base URL is "
            "that of an OpenAI-compatible server, mostly ending in /v1",
            reply=reported(body, secret, REPLY_CHARACTERS),
        ) from error
    usage = _counted(found.usage)
    if choice is None:
        message = "the completion has no choices: ask again, or look into the server's log"
        raise AskFailed("invalid_reply", message, usage=usage)
    text = choice.message.content or ""
    if choice.message.refusal or choice.finish_reason == "content_filter":
        reply = _beginning(text, secret)
        why = reported((choice.message.refusal or "content filter").encode("utf-8", "replace"), secret)
        message = f"the model refused ({why}): change the messages, or take another model"
        raise AskFailed("refused", message, reply=reply or why, usage=usage)
    if choice.finish_reason == "length":
        message = "the reply was cut off at the server's bound of tokens: raise `max_tokens`"
        raise AskFailed("cut_off", message, reply=_beginning(text, secret), usage=usage)
    if not text:
        raise AskFailed("invalid_reply", "the reply is empty: check that the model answers in text", usage=usage)
    has_logprobs = bytes(choice.logprobs).strip() != b"null"
    return ServerReply(text, choice.finish_reason or "", has_logprobs, usage)


class Advice(NamedTuple):
    """What to do about answers of statuses other than 200: `unknown` for 404; `key` for 401 and 403; `other` for others
    that are final.
    """

    unknown: str
    key: str
    other: str


_OF_MODEL = Advice(
    "check the base URL, mostly ending in /v1, and the model's name there",
    "check the API key of the model",
    "check the model's name there and its defaults",
)


def refusal(status: int, headers: Mapping[str, str], body: bytes, secret: str, advice: Advice = _OF_MODEL) -> AskFailed:
    """Return the error for an answer with a status other than 200."""
    said = f"the server answered {status} ({reported(body, secret)})"
    pause = _retry_after(headers.get("retry-after", ""))

    def meaning(
        kind: ModelFailure, message: str, retryable: bool = False, retry_after_s: float | None = None
    ) -> AskFailed:
        reply = reported(body, secret, REPLY_CHARACTERS)
        return AskFailed(kind, message, retryable, retry_after_s, status=status, reply=reply)

    if status == 429 and _code(body) == "insufficient_quota":
        return meaning("refused", f"{said}: the account has no quota left, so pay for more, or take another model")
    if status == 429:
        return meaning("rate_limited", f"{said}: ask later, or raise the limit there", True, pause)
    if status == 404:
        return meaning("unknown", f"{said}: {advice.unknown}")
    if status in (401, 403):
        return meaning("refused", f"{said}: {advice.key}")
    if 300 <= status < 400:
        return meaning("refused", f"the server answered {status}, and redirects are not followed: set its own URL")
    if status >= 500 or status in (408, 409, 425):
        return meaning("unreachable", f"{said}: ask again, or look into the server's log", True, pause)
    return meaning("refused", f"{said}: {advice.other}")


def reported(body: bytes, secret: str, most: int = _SHOWN_CHARACTERS) -> str:
    """Return the beginning of an answer, without the secret, which it may repeat."""
    text = secret_text.without_parts(body[:_LOOKED_AT].decode("utf-8", "replace"), secret)
    text = " ".join(text.split())
    return f"{text[:most]}…" if len(text) > most else text or "nothing"


def _beginning(text: str, secret: str) -> str:
    return reported(text[:_LOOKED_AT].encode("utf-8", "replace"), secret, REPLY_CHARACTERS) if text else ""


def _counted(usage: msgspec.Raw) -> TokenUsage:
    """The token counts that a server reports. One that is missing or invalid is 0, which invalidates neither the reply
    nor the other one: a budget limits what is known.
    """
    try:
        found = _usage.decode(usage)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return TokenUsage()
    return TokenUsage(_tokens(found.prompt_tokens), _tokens(found.completion_tokens))


def _tokens(count: msgspec.Raw) -> int:
    try:
        tokens = _count.decode(count)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0
    return tokens if 0 <= tokens < _MOST_TOKENS else 0


def _code(body: bytes) -> object:
    if len(body) > _LOOKED_AT:
        return None
    try:
        error = _coded.decode(body).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return error.get("code") if isinstance(error, dict) else None


def _retry_after(value: str) -> float | None:
    """Seconds, from a number or a date; None if it is neither."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            at = parsedate_to_datetime(value)
        except (ValueError, OverflowError):  # OverflowError: a year or an hour of twenty digits
            return None
        seconds = (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), _LONGEST_PAUSE_S) if seconds == seconds else None
