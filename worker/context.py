"""What the jobs of one worker process share. RQ names a job by its function alone, so it is found here."""

import threading
from dataclasses import dataclass, field

from models.asker import Asker
from runtime.metrics import Metrics
from sandbox.pool import Pool
from storage.batch_plan import Lane
from storage.store import Store
from worker.dispatch import Dispatch
from worker.heartbeat import Heartbeat

_current: list["WorkerContext"] = []


@dataclass
class WorkerContext:
    """One worker process.

    Attributes:
        stopping: is set once it has been told to stop.
        stop_s: how many seconds that may take.
        scoring: is set while the worker's own loop has a unit, and answers no calls.
        asker: answers what graders ask; None in a worker whose batches ask nothing.
        starving: is set when a unit takes long while a project waits that has no lease.
    """

    store: Store
    pool: Pool
    dispatch: Dispatch
    heartbeat: Heartbeat
    metrics: Metrics = field(default_factory=lambda: Metrics("worker"))
    stopping: threading.Event = field(default_factory=threading.Event)
    stop_s: float = 8.0
    starving: threading.Event = field(default_factory=threading.Event)
    scoring: threading.Event = field(default_factory=threading.Event)
    asker: Asker | None = None

    @property
    def lane(self) -> Lane:
        """Which batches it scores."""
        return self.dispatch.lane


def use(context: WorkerContext) -> None:
    """Makes this the context of the process."""
    _current[:] = [context]


def current() -> WorkerContext:
    """The context of this process.

    Raises:
        RuntimeError: the process is no worker of gradebox, but RQ's own.
    """
    if not _current:
        raise RuntimeError("no sandboxes were set up in this process: start workers with `gradebox worker`")
    return _current[0]
