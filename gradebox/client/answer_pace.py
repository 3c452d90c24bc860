"""The pace at which the body of an answer must arrive."""

from math import inf
from time import monotonic

import httpx

PART_S = "part_s"  # the extension of a request: seconds for each part of its answer; without it, there is no limit
PART_BYTES = 64 * 1024


class AnswerPace:
    """Counts the blocks of an answer. The timeout of httpx is for each read, and a byte every second would last for
    ever.
    """

    def __init__(self, request: httpx.Request) -> None:
        self._request = request
        self._part_s: float = request.extensions.get(PART_S, inf)
        self._since = monotonic()
        self._missing = PART_BYTES

    def count(self, block: bytes) -> None:
        """Counts a block. Raises httpx.ReadTimeout if the current part takes too long."""
        now = monotonic()
        if now - self._since > self._part_s:
            raise httpx.ReadTimeout("the answer trickles", request=self._request)
        self._missing -= len(block)
        if self._missing <= 0:
            self._since, self._missing = now, PART_BYTES
