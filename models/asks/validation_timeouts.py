"""How long the validation of a grader waits for servers; its caller waits for it."""

from models.errors import AskFailed

_REPLY_S = 30.0  # for one whole reply: a model that is still being loaded may take that long
_TRIES_S = 5.0  # for retries after a refused connection or a transient error
_ADVICE = (
    "send it again once the server answers, or have stand-ins answer now "
    '(`ask="stand-in"`, `--ask stand-in`; the version says so)'
)


class ValidationTimeouts:
    """The timeouts of one validation. Once a server has given no reply in time, all later asks of it fail at once.

    For one event loop.
    """

    def __init__(self, reply_s: float = _REPLY_S, tries_s: float = _TRIES_S) -> None:
        self.reply_s = reply_s
        self.tries_s = tries_s
        self._failed: dict[str, AskFailed] = {}

    def check(self, asked: str) -> None:
        """Raise AskFailed if an earlier ask of this server failed after waiting."""
        if error := self._failed.get(asked):
            raise error

    def too_slow(self) -> AskFailed:
        """Return the error for a reply that does not arrive in time."""
        message = f"there was no whole reply within the {self.reply_s:g} s that a proof waits for one"
        return AskFailed("unreachable", message, True)

    def reported(self, asked: str, error: AskFailed) -> AskFailed:
        """Return the error to report, with advice if the server may answer later."""
        fault = error.fault
        if not fault.retryable:
            return error
        told = AskFailed(
            fault.kind,
            f"{fault.message}; {_ADVICE}",
            True,
            fault.retry_after_s,
            status=error.status,
            reply=error.reply,
            usage=error.usage,
        )
        self._failed[asked] = told
        return told
