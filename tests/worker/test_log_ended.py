"""Tests of what is logged and counted when a batch ends."""

import time

from structlog.testing import capture_logs

from gradebox.outcome import Outcome, OutcomeError
from runtime.metrics import Metrics
from storage.store import Store
from tests.storage.making import accept, claim, finish, outcomes_of
from worker.log_ended import log_finished


def ended(store: Store, metrics: Metrics, batch: str) -> dict[str, object]:
    """The line that is logged for a finished batch."""
    with capture_logs() as lines:
        log_finished(store, metrics, batch)
    (line,) = (line for line in lines if line["event"] == "batch finished")
    return dict(line)


def counted(metrics: Metrics, name: str) -> float:
    found = metrics.registry.get_sample_value(f"gradebox_batch_{name}_seconds_count")
    assert found is not None
    return found


def test_a_retry_takes_as_long_as_the_retry(store: Store) -> None:
    metrics = Metrics("worker")
    batch = accept(store, 2)
    time.sleep(1.0)
    error = OutcomeError("model", "away", retryable=True, cause="unreachable")
    lease = claim(store)
    finish(store, lease, [Outcome(one.index, one.grader, None, 0.5, error=error) for one in outcomes_of(store, lease)])
    first = ended(store, metrics, batch)
    assert float(str(first["wait_s"])) >= 1.0 > float(str(first["run_s"]))
    store.freezer.freeze(batch)
    time.sleep(1.0)
    store.retries.begin("default", batch, lambda *_: None)
    finish(store, claim(store))
    again = ended(store, metrics, batch)
    assert (again["wait_s"], float(str(again["run_s"])) < 1.0) == (0.0, True)
    assert (counted(metrics, "wait"), counted(metrics, "run")) == (1, 2)
