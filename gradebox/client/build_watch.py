"""Shows the progress of an environment's build until it ends, and decides which error the end raises."""

import time
from math import inf
from types import TracebackType
from typing import Self

from rich.console import Console

from gradebox.errors import BuildTimeout, ConnectionFailed, EnvironmentFailed
from gradebox.schemas import Environment
from gradebox.terminal_text import plain

ANSWER_S = 10.0  # how long a request may wait; the service answers earlier if something changes


class BuildWatch:
    """Receives each state of an environment, and returns how long the next request may wait."""

    def __init__(self, progress: bool, timeout: float | None) -> None:
        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True) if progress else None
        self._timeout = inf if timeout is None else timeout
        self._started = time.monotonic()
        self._step = ""
        self._environment: Environment | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, ConnectionFailed) and self.left_s <= 0 and self._environment is not None:
            raise BuildTimeout(self._environment, self._timeout) from error

    @property
    def left_s(self) -> float:
        """How many seconds the caller still waits."""
        return self._timeout - (time.monotonic() - self._started)

    def observe(self, environment: Environment) -> float | None:
        """Prints a new step; returns how many seconds the next request may wait, or None if the newest build is ready.

        Raises:
            EnvironmentFailed: the build failed.
            BuildTimeout: the build did not end in time.
        """
        self._environment = environment
        elapsed = time.monotonic() - self._started
        newest = environment.newest
        step = environment.state if newest is None or environment.state != "building" else newest.step
        if self._console is not None and step != self._step:
            self._console.print(plain(f"environment {environment.key}@{environment.build}: {step} ({elapsed:.0f} s)"))
        self._step = step
        if environment.state == "failed":
            raise EnvironmentFailed(environment)
        if environment.state == "ready":
            return None
        left_s = self.left_s
        if left_s <= 0:
            raise BuildTimeout(environment, self._timeout)
        return max(0.001, min(ANSWER_S, left_s))
