"""Tests of the budget of a project over HTTP."""

import httpx
import pytest

from gradebox.outcome import Spent
from tests.api.conftest import PROJECT, Service, problem
from tests.api.routes.conftest import spend

PATH = f"{PROJECT}/budget"
HALF = Spent(1, 0, 100, 20, 0.5)
NONE: dict[str, object] = {"usd": None, "tokens": None, "period": "total", "not_limited": []}


@pytest.mark.parametrize("period", ["day", "month", "total"])
def test_a_budget_is_shown_with_what_is_spent(client: httpx.Client, service: Service, period: str) -> None:
    assert client.get(PATH).json() == {**NONE, "spent_usd": 0, "spent_tokens": 0, "is_spent": False}
    sent = {"usd": 1.5, "tokens": 1000, "period": period}
    budget = {**sent, "not_limited": []}
    unspent = {**budget, "spent_usd": 0, "spent_tokens": 0, "is_spent": False}
    assert client.put(PATH, json=sent).json() == unspent
    for _ in range(2):
        spend(service, HALF)
    spend(service, HALF, project="other")
    assert client.get(PATH).json() == {**budget, "spent_usd": 1, "spent_tokens": 240, "is_spent": False}
    last = spend(service, HALF)
    assert last.budget is not None
    assert last.project.used_up(last.budget), "what asks read says the same"
    assert client.get(PATH).json() == {**budget, "spent_usd": 1.5, "spent_tokens": 360, "is_spent": True}
    more = {"tokens": 361, "period": period}
    assert client.put(PATH, json=more).json() == {
        **NONE,
        **more,
        "spent_usd": 1.5,
        "spent_tokens": 360,
        "is_spent": False,
    }
    for _ in range(2):  # there is a line of the audit for the first
        assert client.delete(PATH).status_code == 204
    assert client.get(PATH).json() == {**NONE, "spent_usd": 1.5, "spent_tokens": 360, "is_spent": False}
    actions = [(line["action"], line["object"]) for line in client.get(f"{PROJECT}/audit").json()]
    assert actions == [("budget.delete", "default"), ("budget.update", "default"), ("budget.update", "default")]


@pytest.mark.usefixtures("here")
def test_models_without_a_price_are_named(client: httpx.Client) -> None:
    for key, price in {"unknown": None, "free": 0, "dear": 1}.items():
        prices = {"input_price": price, "output_price": price}
        model = {"key": key, "base_url": "http://127.0.0.1:1/v1", "model": "m", **prices}
        client.post(f"{PROJECT}/models", json=model).raise_for_status()
    assert client.put(PATH, json={"usd": 1}).json()["not_limited"] == ["unknown"]
    assert client.put(PATH, json={"tokens": 1}).json()["not_limited"] == []


def test_what_was_spent_before_the_period_is_not_counted(client: httpx.Client, service: Service) -> None:
    client.put(PATH, json={"usd": 1}).raise_for_status()
    service.store.redis.hset("gradebox:spent:default:2001-01", "cost:USD", 10**12)
    service.store.redis.hset("gradebox:spent:default", "cost:USD", 10**12)
    found = client.get(PATH).json()
    assert (found["period"], found["spent_usd"], found["is_spent"]) == ("month", 0, False)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"period": "month"},
        {"usd": -1},
        {"tokens": 1.5},
        {"usd": 1, "currency": "usd"},
        {"usd": 1, "period": "week"},
        {"usd": 1, "spent_usd": 0},
    ],
)
def test_what_is_no_budget(client: httpx.Client, body: dict[str, object]) -> None:
    problem(client.put(PATH, json=body), 422, "invalid-request")
    assert client.get(PATH).json()["usd"] is None
