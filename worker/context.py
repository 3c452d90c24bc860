"""The state that the jobs of one worker process share. An RQ job is only the name of a function, so the function looks
the state up here.
"""

import threading
from dataclasses import dataclass, field

from models.asks.asker import Asker
from runtime.metrics import Metrics
from sandbox.pool.pool import Pool
from storage.batch_plan import Lane
from storage.store import Store
from worker.dispatch import Dispatch
from worker.heartbeat import Heartbeat

_current: list["WorkerContext"] = []


@dataclass
class WorkerContext:
    """One worker process.

    Attributes:
        stopping: set once the process must stop.
        stop_s: the number of seconds that stopping may take.
        asker: answers the asks of graders; None in a worker whose batches ask nothing.
        spool_error: why the process cannot work until the spool is usable again; None if it can.
        unserved_project: set when a unit takes long while a project without a lease waits.
        unserved_batch: set then too, and when a unit takes long while a batch of its project without a lease waits.
    """

    store: Store
    pool: Pool
    dispatch: Dispatch
    heartbeat: Heartbeat
    metrics: Metrics = field(default_factory=lambda: Metrics("worker"))
    stopping: threading.Event = field(default_factory=threading.Event)
    stop_s: float = 8.0
    unserved_project: threading.Event = field(default_factory=threading.Event)
    unserved_batch: threading.Event = field(default_factory=threading.Event)
    asker: Asker | None = None
    spool_error: OSError | None = None

    def trouble(self) -> str | None:
        """Why this process cannot work now; None if it can."""
        spool = None if self.spool_error is None else f"it waits for the spool: {self.spool_error}"
        return self.pool.trouble() or self.heartbeat.trouble() or spool

    @property
    def lane(self) -> Lane:
        """The lane of the batches that it scores."""
        return self.dispatch.lane


def use(context: WorkerContext) -> None:
    """Makes this the context of the process."""
    _current[:] = [context]


def current() -> WorkerContext:
    """The context of this process.

    Raises:
        RuntimeError: the process is a plain RQ worker, not a worker of gradebox.
    """
    if not _current:
        raise RuntimeError("no sandboxes were set up in this process: start workers with `gradebox worker`")
    return _current[0]
