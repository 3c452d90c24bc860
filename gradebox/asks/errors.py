"""The exception that a grader gets for a failed ask."""

from typing import Any


class ModelError(Exception):
    """A failed ask. If it is not caught, the completion has an outcome of kind `model`, and no score.

    Attributes:
        kind: `unknown`, `unreachable`, `rate_limited`, `refused`, `cut_off`, `invalid_reply`, `over_budget`, `failed`,
            `not_repeated` or `too_much`.
        message: the problem and the fix.
        retryable: whether the same ask may succeed later.
        reply: the beginning of the server's answer; empty if there was none.
        details: appear in the outcome beside the error, like those of a `Score`; None for none.
    """

    def __init__(
        self, kind: str, message: str, retryable: bool = False, reply: str = "", details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retryable = retryable
        self.reply = reply
        self.details = details

    def __reduce__(self) -> tuple[type["ModelError"], tuple[str, str, bool, str, dict[str, Any] | None]]:
        return type(self), (self.kind, self.message, self.retryable, self.reply, self.details)
