"""Shows the progress of an environment's build until it ends, and decides which error the end raises."""

import time

from rich.console import Console

from gradebox.errors import BuildTimeout, EnvironmentFailed
from gradebox.schemas import Environment

ANSWER_S = 10.0  # how long a request may wait; the service answers earlier if something changes


class BuildWatch:
    """Receives each state of an environment, and returns how long the next request may wait."""

    def __init__(self, progress: bool, timeout: float | None) -> None:
        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True) if progress else None
        self._timeout = timeout
        self._started = time.monotonic()
        self._step = ""

    def observe(self, environment: Environment) -> float | None:
        """Prints a new step; returns how many seconds the next request may wait, or None if the newest build is ready.

        Raises:
            EnvironmentFailed: the build failed.
            BuildTimeout: the build did not end in time.
        """
        elapsed = time.monotonic() - self._started
        newest = environment.newest
        step = environment.state if newest is None or environment.state != "building" else newest.step
        if self._console is not None and step != self._step:
            self._console.print(f"environment {environment.key}@{environment.build}: {step} ({elapsed:.0f} s)")
        self._step = step
        if environment.state == "failed":
            raise EnvironmentFailed(environment)
        if environment.state == "ready":
            return None
        if self._timeout is None:
            return ANSWER_S
        if elapsed >= self._timeout:
            raise BuildTimeout(environment, self._timeout)
        return max(0.001, min(ANSWER_S, self._timeout - elapsed))
