"""Exceptions that this package raises deliberately.

AskFailed         a model was asked and gave no usable reply
AddressError      a base URL is invalid, or leads to an address that is not permitted
"""

from typing import NamedTuple

from gradebox.schemas import ModelFailure, ModelFault


class TokenUsage(NamedTuple):
    """Token counts reported by the server."""

    input_tokens: int = 0
    output_tokens: int = 0


class AskFailed(Exception):
    """A model was asked and gave no usable reply.

    Attributes:
        fault: the failure, in the form in which the API returns it.
        status: the HTTP status of the answer; 0 if there was no answer.
        reply: the beginning of the answer.
        usage: the tokens that the failed reply cost.
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
    """A base URL is invalid, or leads to an address that is not permitted. The message never contains secrets of the
    URL."""
