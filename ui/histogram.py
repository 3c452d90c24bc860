"""The geometry of the histogram of a batch's scores."""

from dataclasses import dataclass

from gradebox.schemas import Summary

WIDTH, HEIGHT = 640, 120
_GAP = 2


@dataclass(frozen=True)
class Bar:
    """One bin: its number, bounds and count, and the position and size of its bar."""

    number: int
    low: float
    high: float
    count: int
    x: float
    y: float
    width: float
    height: float


def bars(summary: Summary) -> list[Bar]:
    """Return a bar for each bin; the highest bar has the full height."""
    bins = summary.histogram
    most = max((one.count for one in bins), default=0)
    width = WIDTH / max(len(bins), 1)
    found = []
    for number, one in enumerate(bins):
        height = max(HEIGHT * one.count / most, 1.5 if one.count else 0) if most else 0
        found.append(
            Bar(
                number,
                one.low,
                one.high,
                one.count,
                round(number * width + _GAP / 2, 2),
                round(HEIGHT - height, 2),
                round(width - _GAP, 2),
                round(height, 2),
            )
        )
    return found
