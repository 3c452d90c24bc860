"""Failures to start sandboxes, and the time of the next attempt."""

from time import monotonic

_RETRY_S = 1.0  # from a failed start to the next attempt


class StartTrouble:
    """The reason why the last attempts to start an empty sandbox failed. The caller holds a lock."""

    def __init__(self) -> None:
        self._why = ""  # empty if the last attempt succeeded
        self._since = 0.0
        self._retry_at = 0.0
        self._ended_by = ""

    def failed(self, why: str) -> None:
        """Records that a sandbox could not be started."""
        now = monotonic()
        if not self._why:
            self._since = now
        self._why = why
        self._retry_at = now + _RETRY_S

    def started(self) -> None:
        """Records that a sandbox was started, which ends the failure."""
        self._why = ""

    def ended(self, why: str) -> None:
        """Records that no more sandboxes will be started."""
        self._ended_by = why

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt failed."""
        return bool(self._why)

    @property
    def is_pausing(self) -> bool:
        """Whether it is too early for another attempt."""
        return self.is_failing and monotonic() < self._retry_at

    def told(self) -> str | None:
        """The reason why sandboxes are unavailable at present; None if they are available."""
        if self._ended_by:
            return f"the thread that starts sandboxes has ended: {self._ended_by}"
        if self._why:
            seconds = round(monotonic() - self._since)
            return f"no sandbox could be started{f' for {seconds} s' if seconds else ''}: {self._why}"
        return None
