"""What this room raises on purpose.

ModelError        a model was asked and gave no reply that can be used
AddressError      a base URL is none, or leads where it may not
ReplyTooLarge     a reply is longer than the operator allows
"""

from gradebox.schemas import ModelFailure, ModelFault


class ModelError(Exception):
    """A model was asked and gave no reply that can be used."""

    def __init__(
        self, kind: ModelFailure, message: str, retryable: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.fault = ModelFault(kind=kind, message=message, retryable=retryable, retry_after_s=retry_after_s)


class AddressError(ValueError):
    """A base URL is none, or leads where it may not. The message never has what may be a secret of the URL."""


class ReplyTooLarge(Exception):
    """A reply is longer than the operator allows."""
