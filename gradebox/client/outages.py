"""The outages that a call meets."""

from math import inf

import httpx

from gradebox.client.calls.call import problem_of

MOST_OUTAGES = 3  # of one call: one that breaks the service each time would otherwise be sent for ever
_AT_WORK_S = 5.0  # a proxy in front of a service that is away breaks its connections sooner


class Outages:
    """Counts the failed tries of each outage of a call. An outage ends when a try gets through to the service, also if
    that try fails later.

    Attributes:
        tries: the failed tries of all outages.
    """

    def __init__(self) -> None:
        self.tries = 0
        self._number = self._before = 0
        self._since = inf

    def failed(self, now: float, worked_s: float = 0.0) -> tuple[int, float]:
        """Counts a try that fails after `worked_s` seconds of work.

        Returns the number of tries that have failed before in this outage, and for how many seconds it lasts.
        """
        if not self._number or (worked_s > _AT_WORK_S and self._number < MOST_OUTAGES):
            self._number, self._before, self._since = self._number + 1, self.tries, now
        self.tries += 1
        return self.tries - self._before - 1, now - self._since


def was_at_work(failure: httpx.Response | httpx.HTTPError) -> bool:
    """Whether a try was at work until it failed: its connection broke, or the service stopped. A try without an answer
    is no work, nor is a wait for a place, or for a proxy.
    """
    if isinstance(failure, httpx.Response):
        problem = problem_of(failure) if failure.status_code == httpx.codes.SERVICE_UNAVAILABLE else None
        return problem is not None and problem.type.endswith(":unavailable")
    return isinstance(failure, httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError)
