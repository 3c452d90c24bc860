"""The number of lines that a grader is given at once."""

_SLICE_S = 0.5
_FIRST = 16
_GROWTH = 4
_MOST = 4096  # more than a chunk has


class SliceSize:
    """The number of lines that take about half a second. If a unit is left in the middle, the outcomes to be kept are
    reported at the end of the current slice at the latest.

    A fast grader soon gets whole chunks, so that it never waits for that.
    """

    def __init__(self, first: int = _FIRST) -> None:
        """`first` is the number of lines to give before their duration is known."""
        self.lines = first

    def took(self, lines: int, seconds: float) -> None:
        """Adapts the number of lines to the duration of the last ones."""
        fitting = int(lines * _SLICE_S / max(seconds, 1e-6))
        self.lines = max(1, min(fitting, lines * _GROWTH, _MOST))
