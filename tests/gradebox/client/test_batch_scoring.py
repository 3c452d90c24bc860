"""Tests of scoring in a batch, with a service that does not answer."""

from datetime import UTC, datetime

import httpx
import pytest

from gradebox.client._sync.batch_scoring import score_by_workers
from gradebox.client._sync.batches import Batches
from gradebox.client._sync.transport import Transport
from gradebox.client.rules import Rules
from gradebox.schemas import Batch, BatchGrader

_RUNS = Batch(
    id="b",
    project="default",
    state="running",
    graders=[BatchGrader(key="g", version=1)],
    threads=1,
    total=1,
    done=0,
    scored=0,
    errors={},
    created_at=datetime.now(UTC),
)


def test_an_interrupt_stays_one_while_the_service_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """As an error of the connection, the trainer could take it for a step that failed, and go on."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            raise KeyboardInterrupt
        if request.url.path.endswith("/cancel"):
            raise httpx.ConnectError("refused")
        return httpx.Response(200, text=_RUNS.model_dump_json())

    sender = Transport(Rules("http://127.0.0.1:8000", "k", 5.0, retry_s=0), httpx.MockTransport(answer))
    with pytest.raises(KeyboardInterrupt):
        score_by_workers(Batches(sender, "default"), "g", [{"completion": "4"}])
    assert "batch b is being cancelled; a second interrupt" in caplog.text
