"""How long the proof of a grader waits for servers: somebody waits for the proof."""

from models.errors import AskFailed

_REPLY_S = 30.0  # for one whole reply: a model that is only being loaded may take that long
_TRIES_S = 5.0  # within which a server that takes no connection, or answers with what may pass, is asked again
_ADVICE = (
    "send it again once the server answers, or have stand-ins answer now "
    '(`ask="stand-in"`, `--ask stand-in`; the version says so)'
)


class Patience:
    """That of one proof. What has waited in vain for a server makes all later asks of that server fail at once.

    For one event loop.
    """

    def __init__(self, reply_s: float = _REPLY_S, tries_s: float = _TRIES_S) -> None:
        self.reply_s = reply_s
        self.tries_s = tries_s
        self._in_vain: dict[str, AskFailed] = {}

    def check(self, asked: str) -> None:
        """Raises AskFailed where this was asked in vain before."""
        if error := self._in_vain.get(asked):
            raise error

    def too_slow(self) -> AskFailed:
        """What a reply that is not there in time comes to."""
        message = f"there was no whole reply within the {self.reply_s:g} s that a proof waits for one"
        return AskFailed("unreachable", message, True)

    def spent_by(self, asked: str, error: AskFailed) -> AskFailed:
        """The error to tell, with what to do where the server may answer later."""
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
        self._in_vain[asked] = told
        return told
