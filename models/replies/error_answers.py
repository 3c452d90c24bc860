"""The meaning of answers that are errors: of another status than 200, an error inside, or cut off."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import msgspec

from gradebox.schemas import ModelFailure
from models.errors import AskFailed
from models.replies import secret_text
from models.replies.secret_text import Secrets

_LONGEST_PAUSE_S = 3600.0
_LOOKED_AT = 16_384  # bytes of an answer that are decoded for display
_SHOWN_CHARACTERS = 500
REPLY_CHARACTERS = 4096
NOT_DECODED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NO_ERROR = (b"null", b"false", b'""', b"{}", b"[]")


class Advice(NamedTuple):
    """What to do about answers of statuses other than 200: `unknown` for 404; `key` for 401 and 403; `other` for others
    that are final.
    """

    unknown: str
    key: str
    other: str


OF_MODEL = Advice(
    "check the base URL, mostly ending in /v1, and the model's name there",
    "check the API key of the model",
    "check the name there, the defaults, and the grader's `temperature` (None sends none), `max_tokens` and `seed`",
)


class _Failed(msgspec.Struct):
    error: msgspec.Raw = msgspec.Raw(b"null")


_NO_REPLY = {
    201: "it created something, but answered nothing",
    202: "it accepted the request, and would answer later",
    204: "it has no content",
    206: "it sent only a part of its answer",
}
_STATUSES = frozenset(map(str, range(400, 600)))
_failed = msgspec.json.Decoder(_Failed)
_any = msgspec.json.Decoder()
_raw = msgspec.json.Decoder(msgspec.Raw)


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, secrets: Secrets, advice: Advice = OF_MODEL
) -> AskFailed:
    """Return the error for an answer with a status other than 200."""
    said = f"the server answered {status} ({reported(body, secrets)})"
    reply = reported(body, secrets, REPLY_CHARACTERS)
    return _meaning(status, said, reply, _error_in(body), _retry_after(headers), advice)


def failure(body: bytes, secrets: Secrets, advice: Advice = OF_MODEL) -> AskFailed | None:
    """Return the error for an answer of status 200 that is an error, or ends before its JSON does; None for others."""
    error = _error_in(body)
    is_cut_off = error is None and _is_cut_off(body)
    if error is None and not is_cut_off:
        return None
    said, reply = reported(body, secrets), reported(body, secrets, REPLY_CHARACTERS)
    if is_cut_off:
        message = f"the answer ends before it is complete ({said}): ask again, or look into the server's log"
        return AskFailed("unreachable", message, True, status=200, reply=reply)
    status = _status_of(error)
    if status is None:
        message = f"the server answered 200 with an error ({said}): look into the server's log"
        return AskFailed("refused", message, status=200, reply=reply)
    return _meaning(status, f"the server answered 200 with an error {status} ({said})", reply, error, None, advice)


def reported(body: bytes, secrets: Secrets, most: int = _SHOWN_CHARACTERS) -> str:
    """Return the beginning of an answer, without the secrets, which it may repeat."""
    text = secret_text.without_parts(body[:_LOOKED_AT].decode("utf-8", "replace"), secrets)
    text = " ".join(text.split())
    return f"{text[:most]}…" if len(text) > most else text or "nothing"


def reported_text(text: str, secrets: Secrets) -> str:
    """Return the beginning of a text of an answer, as `reported`; empty if there is none."""
    return reported(text[:_LOOKED_AT].encode("utf-8", "replace"), secrets, REPLY_CHARACTERS) if text else ""


def _meaning(status: int, said: str, reply: str, error: Any, retry_after_s: float | None, advice: Advice) -> AskFailed:
    def failed(kind: ModelFailure, why: str, retryable: bool = False, pause: float | None = None) -> AskFailed:
        return AskFailed(kind, f"{said}: {why}", retryable, pause, status=status, reply=reply)

    if status == 402 or (status == 429 and isinstance(error, dict) and error.get("code") == "insufficient_quota"):
        return failed("refused", "the account has no quota left, so pay for more, or take another server")
    if status == 429:
        return failed("rate_limited", "ask later, or raise the limit there", True, retry_after_s)
    if status == 404:
        return failed("unknown", advice.unknown)
    if status in (401, 403):
        return failed("refused", advice.key)
    if status == 413:
        return failed("refused", "the request is too large for the server, so send less, or raise its limit")
    if status < 300:
        return failed("invalid_reply", f"{_NO_REPLY.get(status, 'only 200 is a reply')}, so check its URL")
    if status < 400:
        message = f"the server answered {status}, and redirects are not followed: set its own URL"
        return AskFailed("refused", message, status=status, reply=reply)
    if status >= 500 or status in (408, 409, 425):
        return failed("unreachable", "ask again, or look into the server's log", True, retry_after_s)
    return failed("refused", advice.other)


def _is_cut_off(body: bytes) -> bool:
    """Whether a body begins as JSON and ends before it is complete, as if the connection had been closed."""
    if not body.lstrip().startswith((b"{", b"[")):
        return False
    try:
        _raw.decode(body)
    except NOT_DECODED as error:
        return str(error) == "Input data was truncated"
    return False


def _error_in(body: bytes) -> Any:
    """The member `error` of an answer; None if there is none. One that is large is not decoded."""
    try:
        error = _failed.decode(body).error
        if bytes(error).strip() in _NO_ERROR:
            return None
        return _any.decode(error) if len(error) <= _LOOKED_AT else "large"
    except NOT_DECODED:
        return None


def _status_of(error: Any) -> int | None:
    """The status of HTTP that an error names."""
    named = (error.get("code"), error.get("status")) if isinstance(error, dict) else ()
    return next((int(code) for code in map(str, named) if code in _STATUSES), None)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from a number or a date; None if it is neither."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        at = _date(value)
        if at is None:
            return None
        now = _date(headers.get("date", "")) or datetime.now(UTC)  # the server's clock, which may differ from this one
        seconds = (at - now).total_seconds()
    return min(max(seconds, 0.0), _LONGEST_PAUSE_S) if seconds == seconds else None


def _date(value: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # OverflowError: a year or an hour of twenty digits
        return None
    return at.replace(tzinfo=at.tzinfo or UTC)
