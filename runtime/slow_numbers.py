"""Numbers of JSON that take long to read.

msgspec takes some 10 µs for a number near an end of the range of floats, such as 1e308 or 5e-324, and for some of
twenty digits with an exponent of hundreds: a hundred times as long as for others. It holds the interpreter meanwhile:
two megabytes of them stop a whole process for seconds. Such a number has an exponent of three digits, unless it is
hundreds of digits long.
"""

import re
from collections.abc import Iterator
from itertools import chain, islice

MOST = 1000
"""How many of them are read at once: they take 10 ms."""
REASON = (
    f"there are more than {MOST} numbers with an exponent of three digits, such as 1e-310, which take long to read: "
    "round those that are nearly 0"
)
FEW_BYTES = MOST * len(b"1e308,")
"""A text of so many bytes does not have more."""
_EXPONENT = rb"[0-9.][eE][+-]?[0-9]{3}"
_SLICE = 1 << 20
_OVERLAP = 5  # what matches is at most one byte longer
_anywhere = re.compile(_EXPONENT)
# Strings are skipped, because a text such as a hash may hold the same. A string without an end reaches to the end:
# otherwise each quote in it would be tried as the beginning of another one.
_outside_strings = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|(' + _EXPONENT + rb")", re.DOTALL)


def are_many(text: bytes) -> bool:
    """Whether a JSON text has more of them than are read at once."""
    # A search holds the interpreter, some 25 ms for each slice. Between two of them other threads have their turn.
    slices = (_anywhere.finditer(text, first, first + _SLICE + _OVERLAP) for first in range(0, len(text), _SLICE))
    if len(text) <= FEW_BYTES or not _has_more(chain.from_iterable(slices)):
        return False
    return _has_more(found for found in _outside_strings.finditer(text) if found[1])


def _has_more(found: Iterator[re.Match[bytes]]) -> bool:
    return next(islice(found, MOST, None), None) is not None
