"""Shows the progress of a batch until it ends, and decides how long a request waits and which error the end raises."""

import sys
import time
from collections.abc import Iterable
from importlib.util import find_spec
from math import inf
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from gradebox.errors import BatchFailed, ConnectionFailed, WaitTimeout
from gradebox.schemas import ENDED, Batch
from gradebox.terminal_text import plain

ANSWER_S = 0.2  # how long a request may wait for the end of the batch: the progress bar does not move meanwhile
UNSEEN_S = 2.0  # the same without a progress bar: each request costs the service a few milliseconds
LINE_EVERY_S = 10.0


def note_goes_on(error: BaseException, batch_id: str) -> None:
    """Adds to the error that ends a wait that its batch goes on, and the batch's id."""
    error.add_note(f"batch {batch_id} goes on: wait for it or cancel it by client.batches.get({batch_id!r})")


class BatchWatch:
    """Receives each state of a batch, and returns how long the next request may wait for its end."""

    def __init__(self, batch: Batch, progress: bool, timeout: float | None) -> None:
        self._batch = batch
        self._started = time.monotonic()
        self._done_before = _scored(batch)
        self._timeout = inf if timeout is None else timeout
        self._answer_s = ANSWER_S if progress else UNSEEN_S
        self._display: _ProgressBar | _ProgressLines | None = _display(batch) if progress else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._display:
            self._display.close()
        if isinstance(error, ConnectionFailed) and self.left_s <= 0:
            raise WaitTimeout(self._batch, self._timeout) from error
        if isinstance(error, KeyboardInterrupt | ConnectionFailed):
            note_goes_on(error, self._batch.id)

    @property
    def left_s(self) -> float:
        """How many seconds the caller still waits."""
        return self._timeout - (time.monotonic() - self._started)

    def observe(self, batch: Batch) -> float | None:
        """Shows a state; returns how many seconds the next request may wait, or None if the batch has finished.

        Raises:
            BatchFailed: the batch was cancelled, or failed.
            WaitTimeout: the batch did not end in time.
        """
        self._batch = batch
        elapsed = time.monotonic() - self._started
        if self._display:
            self._display.show(batch, _rate(_scored(batch) - self._done_before, elapsed))
        if batch.state in ENDED:
            if batch.state != "finished":
                raise BatchFailed(batch)
            return None
        left_s = self.left_s
        if left_s <= 0:
            raise WaitTimeout(batch, self._timeout)
        return max(0.001, min(self._answer_s, left_s))


class _BarWithNote(Progress):
    """A progress bar, and a line below it where there is something to say."""

    note = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.note:
            yield Text(self.note, style="yellow")


class _ProgressBar:
    """A progress bar on a terminal or in a notebook."""

    def __init__(self, batch: Batch, console: Console) -> None:
        # On a narrow terminal, the names and the bar give way: a number that is cut, such as 1… of 131, is a wrong one.
        self._progress = _BarWithNote(
            TextColumn("{task.description}", table_column=Column()),
            BarColumn(table_column=Column()),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("[red]{task.fields[errors]}"),
            TextColumn("{task.fields[passed_over]}"),
            console=console,
            # What is printed meanwhile goes to the console of the bar: not if it is written to a file.
            redirect_stdout=getattr(sys.stdout, "isatty", bool)(),
        )
        self._task = self._progress.add_task(_label(batch), total=batch.total, rate="", errors="", passed_over="")
        self._progress.start()

    def show(self, batch: Batch, rate: float) -> None:
        self._progress.note = waits_for(batch)
        self._progress.update(
            self._task,
            completed=_scored(batch),
            rate=_per_second(rate),
            errors=_errors(batch),
            passed_over=_passed_over(batch),
        )

    def close(self) -> None:
        self._progress.stop()


class _ProgressLines:
    """A line every few seconds, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = time.monotonic() + LINE_EVERY_S

    def show(self, batch: Batch, rate: float) -> None:
        now = time.monotonic()
        if now < self._next and batch.state not in ENDED:
            return
        self._next = now + LINE_EVERY_S
        reported = _per_second(rate), _errors(batch), _passed_over(batch), waits_for(batch)
        parts = [f"{_label(batch)}: {_scored(batch):,} of {batch.total:,}", *reported]
        self._console.print(", ".join(filter(None, parts)), highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        pass


def _display(batch: Batch) -> _ProgressBar | _ProgressLines:
    # In a notebook without ipywidgets, rich would print a warning instead of a bar.
    force = None if find_spec("ipywidgets") else False
    console = Console(stderr=True, force_jupyter=force)
    is_moving = console.is_interactive or console.is_jupyter  # TERM=dumb would show the bar at the end alone
    return _ProgressBar(batch, console) if is_moving else _ProgressLines(console)


def _label(batch: Batch) -> str:
    return " + ".join(grader.key for grader in batch.graders) if len(batch.graders) < 4 else batch.id


def _per_second(rate: float) -> str:
    """Empty for a batch that was already over. A slow grader's rate is not rounded to 0."""
    return "" if not rate else f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"


def _errors(batch: Batch) -> str:
    count = sum(batch.errors.values())
    return f"{count:,} errors" if count > 1 else f"{count} error" if count else ""


def _passed_over(batch: Batch) -> str:
    return f"{batch.not_applicable:,} not applicable" if batch.not_applicable else ""


def waits_for(batch: Batch) -> str:
    """Why a batch does not go on at the moment; empty if it does."""
    return plain(", ".join([*(f"waits: {server}" for server in batch.waits_for), *filter(None, [batch.trouble])]))


def _scored(batch: Batch) -> int:
    """Outcomes so far, including those that cannot be read yet, so that the bar also moves with a slow grader."""
    return batch.done + batch.underway


def _rate(done: int, elapsed: float) -> float:
    return done / elapsed if elapsed > 0 else 0.0
