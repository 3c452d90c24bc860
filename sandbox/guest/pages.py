"""Arranges the memory of a process that is going to fork again and again: what its child writes to is copied, page by
page, so small objects that are written to together are to lie together.
"""

from collections.abc import Callable
from functools import partial

_POOL, _FIRST = 1 << 14, 48  # CPython's allocator: bytes of a pool, and where in it the first block lies
_BLOCKS = range(48, 513, 16)
_BYTES = 33  # of an empty `bytes`
_MOST_BYTES = 1 << 16  # that are taken up of one size
_ROW = 4  # blocks side by side from the start of a pool: nobody has used it yet

_taken: list[object] = []


def fill_gaps() -> None:
    """Takes up the free places between small objects, so that those that are made from now on lie side by side.

    Where memory is short it does nothing: then a child's copies cost more.
    """
    try:
        for size in _BLOCKS:
            _fill(size, partial(bytes, size - _BYTES))
        _fill(16, object)
        _fill(32, partial(float, 0))
    except MemoryError:
        _taken.clear()


def _fill(size: int, make: Callable[[], object]) -> None:
    row, last = 0, 0
    for _ in range(_MOST_BYTES // size):
        _taken.append(make())
        place = id(_taken[-1])
        row = 1 if place % _POOL == _FIRST else row + 1 if row and place == last + size else 0
        last = place
        if row == _ROW:
            del _taken[-_ROW:]
            return
