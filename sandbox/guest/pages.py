"""Arranges the memory of a process that is going to fork again and again, so that a fork has less to copy.

What a fork costs grows with the areas that the memory is made of, and with the pages that its child writes to.
"""

import ctypes
import mmap
from collections.abc import Callable
from functools import partial
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_ADDRESS, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_libc.mprotect.argtypes = _libc.madvise.argtypes = [_ADDRESS, _SIZE, _INT]
_libc.munmap.argtypes = [_ADDRESS, _SIZE]
_libc.mmap.argtypes, _libc.mmap.restype = [_ADDRESS, _SIZE, _INT, _INT, _INT, ctypes.c_long], _ADDRESS
_libc.mremap.argtypes, _libc.mremap.restype = [_ADDRESS, _SIZE, _SIZE, _INT, _ADDRESS], _ADDRESS
_RUN = mmap.PROT_READ | mmap.PROT_EXEC
_HUGE = 1 << 21
_FAILED = ctypes.c_void_p(-1).value
_MADV_HUGEPAGE, _MADV_COLLAPSE, _MAY_MOVE_TO = 14, 25, 3
_PAGES = -mmap.PAGESIZE
_LOADED, _READ_ONLY_LATER = 1, 0x6474E552  # kinds of segments, and a flag of theirs: elf(5)
_WRITABLE = 2

_POOL, _FIRST = 1 << 14, 48  # CPython's allocator: bytes of a pool, and where in it the first block lies
_BLOCKS = range(48, 513, 16)
_BYTES = 33  # of an empty `bytes`
_MOST_BYTES = 1 << 16  # that are taken up of one size
_ROW = 4  # blocks side by side from the start of a pool: nobody has used it yet

_taken: list[object] = []


class _Segment(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("physical", ctypes.c_uint64),
        ("in_file", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("align", ctypes.c_uint64),
    )


class _Library(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("segments", ctypes.POINTER(_Segment)),
        ("count", ctypes.c_uint16),
    )


_LOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Library), ctypes.c_size_t, ctypes.c_void_p)


def join_areas() -> None:
    """Makes two areas of the five that each library is mapped as: one to be read and run, one to be written.

    What is constant may then be run, and what the loader has settled be written, by native code of this process: no
    boundary that anything here relies on.
    """
    for start, end, protection in _segments():
        _libc.mprotect(start, end - start, protection)  # where that is refused, they stay apart


def keep_code_in_huge_pages() -> None:
    """Puts a copy, in memory, in the place of whatever is large of the interpreter's code and constants.

    A child then has all of it at once, where it would have a fault for each piece that it comes by. It takes a sandbox
    four megabytes.
    """
    end_before = first = 0
    for start, end, protection in sorted(_segments()):
        if protection == _RUN:
            first = first if start == end_before else -(-start // _HUGE) * _HUGE
            while first + _HUGE <= end:
                _replace(first)
                first += _HUGE
            end_before = end


def _replace(place: int) -> None:
    room = _libc.mmap(None, 2 * _HUGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if room in (None, _FAILED):
        return
    copy = -(-room // _HUGE) * _HUGE
    _libc.munmap(room, copy - room)
    _libc.munmap(copy + _HUGE, room + _HUGE - copy)
    _libc.madvise(copy, _HUGE, _MADV_HUGEPAGE)
    ctypes.memmove(copy, place, _HUGE)
    # Only where it is one page indeed: in small ones it would have to be copied piece by piece, for each child.
    if _libc.madvise(copy, _HUGE, _MADV_COLLAPSE) == 0 and _libc.mprotect(copy, _HUGE, _RUN) == 0:
        _libc.mremap(copy, _HUGE, _HUGE, _MAY_MOVE_TO, place)
    else:
        _libc.munmap(copy, _HUGE)


def _segments() -> list[tuple[int, int, int]]:
    found = []

    def look(library: Any, _size: int, _data: object) -> int:
        told = library.contents
        for segment in told.segments[: told.count]:
            start, end = told.base + segment.address, told.base + segment.address + segment.size
            if segment.kind == _LOADED and not segment.flags & _WRITABLE:
                found.append((start & _PAGES, -(-end & _PAGES), _RUN))
            elif segment.kind == _READ_ONLY_LATER:
                found.append((start & _PAGES, end & _PAGES, mmap.PROT_READ | mmap.PROT_WRITE))
        return 0

    _libc.dl_iterate_phdr(_LOOK(look), None)
    return found


def fill_gaps() -> None:
    """Takes up the free places between small objects, so that those that are made from now on lie side by side."""
    for size in _BLOCKS:
        _fill(size, partial(bytes, size - _BYTES))
    _fill(16, object)
    _fill(32, partial(float, 0))


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
