"""What goes wrong where sandboxes are started, and when it is tried again."""

from time import monotonic

_RETRY_S = 1.0  # between two tries to start a sandbox, after one that failed


class StartTrouble:
    """Why no empty sandbox could be started the last times. Its user has a lock around it."""

    def __init__(self) -> None:
        self._why = ""  # empty when one could be started
        self._since = 0.0
        self._retry_at = 0.0
        self._ended_by = ""

    def failed(self, why: str) -> None:
        """Notes that one could not be started."""
        now = monotonic()
        if not self._why:
            self._since = now
        self._why = why
        self._retry_at = now + _RETRY_S

    def started(self) -> None:
        """Notes that one was started: all is well again."""
        self._why = ""

    def ended(self, why: str) -> None:
        """Notes that none will be started any more."""
        self._ended_by = why

    @property
    def is_failing(self) -> bool:
        """Whether the last one could not be started."""
        return bool(self._why)

    @property
    def is_pausing(self) -> bool:
        """Whether it is too early to try again."""
        return self.is_failing and monotonic() < self._retry_at

    def told(self) -> str | None:
        """Why sandboxes cannot be had at present; None when all is well."""
        if self._ended_by:
            return f"the thread that starts sandboxes has ended: {self._ended_by}"
        if self._why:
            return f"no sandbox could be started for {monotonic() - self._since:.0f} s: {self._why}"
        return None
