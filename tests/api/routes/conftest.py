"""Fixtures for models on this machine, and for batches that have ended."""

from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from gradebox.outcome import Spent
from models.scoring.validation_asks import asker_of
from models.settings import ModelSettings
from storage.models.kept_replies import Keeping
from storage.models.spending import BudgetStanding, CountedAsk, arguments, standing
from tests.api.conftest import PROJECT, Service, answer_of, finished


@pytest.fixture
def here(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Allows models and endpoints on this machine."""
    settings = ModelSettings(model_hosts=("*",), model_private="on", model_reply_kb=64)
    asker = asker_of(service.store, settings, service.services.pool)
    monkeypatch.setattr(service.services, "models", settings)
    monkeypatch.setattr(service.services, "asker", asker)
    yield
    asker.close()


def spend(service: Service, spent: Spent, asked: str = "model:judge", project: str = "default") -> BudgetStanding:
    """Counts what an ask cost, and returns what is told of budgets."""
    counted = arguments(CountedAsk(project, asked, "polite", ""), Keeping(0, 1), spent)
    return standing(service.store.spending.count(args=counted))


def scored(client: httpx.Client, graders: Sequence[str], threads: Sequence[dict[str, Any]]) -> str:
    """Has a batch scored, and returns its id."""
    body = {"graders": [{"key": key} for key in graders], "threads": threads}
    batch = str(answer_of(client.post(f"{PROJECT}/batches", json=body), 202)["id"])
    assert finished(client, batch)["state"] == "finished"
    return batch
