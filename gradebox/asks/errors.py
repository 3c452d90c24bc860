"""What a grader sees of an ask that failed."""

from typing import Any


class ModelError(Exception):
    """An ask that failed. Uncaught, the completion has an outcome of kind `model`, and no score.

    Attributes:
        kind: `unknown`, `unreachable`, `rate_limited`, `refused`, `cut_off`, `invalid_reply`, `over_budget`, `failed`,
            `not_repeated` or `too_much`.
        message: what happened, and what to do.
        retryable: whether the same ask may be answered later.
        reply: the beginning of what the server answered; empty where it did not.
        details: what stands in the outcome beside the error, as those of a `Score`; None for nothing.
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
        return ModelError, (self.kind, self.message, self.retryable, self.reply, self.details)
