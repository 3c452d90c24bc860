"""Answers that are sent into a sandbox: a reply or an error, as one JSON object, without secrets, URLs and
addresses."""

import ipaddress
import re
from typing import Any, NamedTuple

import msgspec

from gradebox.asks.asking import REQUEST_BYTES
from gradebox.outcome import AskFailure, Spent
from models.errors import AskFailed
from models.replies import secret_text
from models.replies.secret_text import Secrets

ANSWER_BYTES = REQUEST_BYTES
MESSAGE_CHARACTERS = 1000
_REPLY_BYTES = 4096
_REPEATS = (
    "the reply repeats the API key, or the value of a header, that the server was sent, so it is withheld: see why the "
    f"server does so, or give another one; fewer than {secret_text.SHORTEST} characters are a placeholder, and may be "
    "repeated"
)
_URL = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,15}://[^\s\"'<>)\]]*")
# It cannot match inside a run of these characters, so that a reply made of them alone takes linear time.
_MAYBE_ADDRESS = re.compile(r"(?<![0-9a-fA-F.:])\[?[0-9a-fA-F]*[.:][0-9a-fA-F.:]*[0-9a-fA-F:]\]?(?::[0-9]+)?")


class Answer(NamedTuple):
    """The answer to an ask. `body` is `{"reply": …}` or `{"error": …}`, which is of the kind `error`. `is_fitting` is
    false for a reply that the grader does not accept, so that it asks again.
    """

    body: bytes
    spent: Spent
    is_fitting: bool = True
    error: AskFailure | None = None

    @property
    def is_error(self) -> bool:
        """Whether this is an error."""
        return self.error is not None


def replied(reply: Any, spent: Spent, secrets: Secrets = ()) -> Answer:
    """Make an answer from a reply. One that repeats a secret, or is too long for a sandbox, becomes an error: cut or
    altered, it could be read as another one.
    """
    body = msgspec.json.encode({"reply": reply})
    if secret_text.repeats(body, secrets):
        return failed("invalid_reply", _REPEATS, spent=spent)
    if len(body) > ANSWER_BYTES:
        message = f"the reply has {len(body)} bytes, and one may have {ANSWER_BYTES}: ask for less, or set `max_tokens`"
        return failed("invalid_reply", message, spent=spent)
    return Answer(body, spent)


def failed(
    kind: AskFailure,
    message: str,
    retryable: bool = False,
    reply: str = "",
    spent: Spent = Spent(),  # noqa: B008
) -> Answer:
    """Make an answer from an error, by default of an ask that was not sent."""
    reported = reply.encode("utf-8", "replace")[:_REPLY_BYTES].decode("utf-8", "ignore")
    error = {"kind": kind, "message": message[:MESSAGE_CHARACTERS], "retryable": retryable, "reply": reported}
    return Answer(msgspec.json.encode({"error": error}), spent, error=kind)


def failed_by(error: AskFailed, host: str, secrets: Secrets, spent: Spent) -> Answer:
    """Make an answer from the error of a server. `host` and `secrets` are removed."""
    fault = error.fault
    message, reply = (cleaned(text, host, secrets) for text in (fault.message, error.reply))
    return failed(fault.kind, message, fault.retryable, reply, spent)


def cleaned(text: str, host: str, secrets: Secrets) -> str:
    """Remove this host, the secrets, URLs and addresses from a text."""
    text = _URL.sub("[URL]", secret_text.without(text, secrets))
    if host:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])(:[0-9]+)?", "[address]", text, flags=re.IGNORECASE)
    return _MAYBE_ADDRESS.sub(lambda found: "[address]" if _is_address(found[0]) else found[0], text)


def _is_address(text: str) -> bool:
    bare = text.strip("[]")
    for maybe in (bare, bare.rpartition(":")[0].strip("[]")):
        try:
            ipaddress.ip_address(maybe)
        except ValueError:
            continue
        return True
    return False
