"""Whether a sandbox gets enough processor time while the host waits for its answer."""

from math import inf
from time import monotonic
from typing import NamedTuple

from sandbox.kernel.usage import ProcessorUse, Starved, measure, starved, wants_processor

LOOK_S = 0.2
_MOST_LOOKS = 1000  # more than fit into a completion's time


class MeasuredUse(NamedTuple):
    """The processor time that a sandbox got in a period of `seconds`. `starved` is set if that was too little."""

    processor_s: float
    seconds: float
    starved: Starved | None


class ProcessorWatch:
    """Measures a sandbox from a moment after the wait began, because most answers are there before.

    Attributes:
        look_at: when `look` is to be called, as a time of `monotonic`.
    """

    def __init__(self, pid: int) -> None:
        """Watches the descendants of this process; 0 if this process cannot see it, and then there is no result."""
        self.look_at = inf
        self._pid = pid
        self._every_s = LOOK_S
        self._before: ProcessorUse | None = None
        self._looks: list[bool] = []  # whether a process inside could have run

    def start(self, every_s: float = LOOK_S) -> None:
        """Forgets earlier measurements. The first one is to be after this time."""
        self._every_s = every_s
        self._before, self.look_at = None, monotonic() + every_s if self._pid else inf

    def stop(self) -> None:
        """Ends the measurements; their result stays."""
        self.look_at = inf

    def look(self) -> None:
        """Records how much processor time the sandbox has got, and whether it could use a processor."""
        if self._before is None:
            self._before, self._looks = measure(self._pid), []
        if len(self._looks) < _MOST_LOOKS:
            self._looks.append(wants_processor(self._pid))
        self.look_at = monotonic() + self._every_s

    def result(self) -> MeasuredUse | None:
        """What the sandbox got since the first measurement; None if there was none."""
        if self._before is None:
            return None
        after = measure(self._pid)
        wanted = sum(self._looks) / max(1, len(self._looks))
        used, seconds = after.processor_s - self._before.processor_s, after.at - self._before.at
        return MeasuredUse(used, seconds, starved(self._before, after, wanted))
