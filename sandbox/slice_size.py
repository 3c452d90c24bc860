"""How many lines a grader is given at once."""

_SLICE_S = 0.5
_FIRST = 16
_GROWTH = 4
_MOST = 4096  # more than a chunk has


class SliceSize:
    """As many lines as take about half a second: what is kept of a unit that is left in the middle is told at the
    end of such a slice at the latest.

    A grader that is fast soon gets whole chunks, so that it never waits for that.
    """

    def __init__(self, first: int = _FIRST) -> None:
        """`first` is how many lines are given before it is known how long they take."""
        self.lines = first

    def took(self, lines: int, seconds: float) -> None:
        """Notes how long so many lines took."""
        fitting = int(lines * _SLICE_S / max(seconds, 1e-6))
        self.lines = max(1, min(fitting, lines * _GROWTH, _MOST))
