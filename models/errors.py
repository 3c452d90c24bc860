"""What this room raises on purpose.

AskFailed        a model was asked and gave no reply that can be used
AddressError      a base URL is none, or leads where it may not
ReplyTooLarge     a reply is longer than the operator allows
"""

from typing import NamedTuple

from gradebox.schemas import ModelFailure, ModelFault


class TokenUsage(NamedTuple):
    """Tokens, as the server counted them."""

    input_tokens: int = 0
    output_tokens: int = 0


class AskFailed(Exception):
    """A model was asked and gave no reply that can be used.

    Attributes:
        fault: what happened, as the API tells it.
        status: what the server answered with; 0 where it did not answer.
        reply: the beginning of what it answered.
        usage: what the reply cost all the same.
    """

    def __init__(
        self,
        kind: ModelFailure,
        message: str,
        retryable: bool = False,
        retry_after_s: float | None = None,
        *,
        status: int = 0,
        reply: str = "",
        usage: TokenUsage = TokenUsage(),  # noqa: B008 - it is immutable
    ) -> None:
        super().__init__(message)
        self.fault = ModelFault(kind=kind, message=message, retryable=retryable, retry_after_s=retry_after_s)
        self.status = status
        self.reply = reply
        self.usage = usage


class AddressError(ValueError):
    """A base URL is none, or leads where it may not. The message never has what may be a secret of the URL."""


class ReplyTooLarge(Exception):
    """A reply is longer than the operator allows."""
