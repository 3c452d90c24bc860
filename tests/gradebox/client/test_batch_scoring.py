"""Tests of scoring in a batch, with a service that does not answer."""

from functools import partial
from time import monotonic

import httpx
import pytest

from gradebox.client import unfinished_batches
from gradebox.client._sync.batch_scoring import _cancel, score_by_workers
from gradebox.client._sync.transport import Transport
from gradebox.client.rules import Rules
from gradebox.client.unfinished_batches import cancelled_at_exit
from gradebox.errors import ClientClosed
from tests.gradebox.making import batch


def test_an_interrupt_stays_one_while_the_service_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """As an error of the connection, the trainer could take it for a step that failed, and go on."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            raise KeyboardInterrupt
        return httpx.Response(200, json=batch().model_dump(mode="json"))

    sender = Transport(Rules("http://127.0.0.1:1", "k", 5.0, retry_s=0), httpx.MockTransport(answer))
    with pytest.raises(KeyboardInterrupt):
        score_by_workers(sender, "default", "g", [{"completion": "4"}])
    assert "batch b1 is being cancelled; a second interrupt" in caplog.text
    assert "batch b1 was not cancelled: no service answers" in caplog.text


def test_a_batch_is_cancelled_if_another_thread_closes_the_client(caplog: pytest.LogCaptureFixture) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            sender.close()
            raise httpx.ReadError("")
        return httpx.Response(200, json=batch().model_dump(mode="json"))

    sender = Transport(Rules("http://127.0.0.1:1", "k", 5.0, retry_s=0), httpx.MockTransport(answer))
    with pytest.raises(ClientClosed):
        score_by_workers(sender, "default", "g", [{"completion": "4"}])
    assert "batch b1 is being cancelled" in caplog.text


def test_a_process_ends_soon_while_the_service_is_away(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished_batches, "_MOST_S", 0.3)
    sender = Transport(Rules("http://127.0.0.1:1", "k", 5.0))
    sender.rules.reached = True
    cancel = partial(_cancel, sender, "default", "b")
    began = monotonic()
    with cancelled_at_exit("b", cancel), cancelled_at_exit("c", cancel):
        unfinished_batches._cancel()
    assert monotonic() - began < 1.5
    assert "batch b was not cancelled: no service answers" in caplog.text
    assert "batch c is left running" in caplog.text
