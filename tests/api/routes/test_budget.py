"""Tests of the budget of a project over HTTP."""

import httpx
import pytest

from gradebox.outcome import Spent
from storage.models.kept_replies import Keeping
from storage.models.spending import BudgetStanding, CountedAsk, arguments, standing
from tests.api.conftest import PROJECT, Service, problem

PATH = f"{PROJECT}/budget"
NONE: dict[str, object] = {"cost": None, "tokens": None, "currency": "USD", "period": "total", "not_limited": []}


def spend(service: Service, cost: float, currency: str, project: str = "default") -> BudgetStanding:
    asked = CountedAsk(project, "model:judge", "polite", "", "USD")
    counted = arguments(asked, Keeping(0, 1), Spent(1, 0, 100, 20, cost), currency)
    return standing(service.store.spending.count(args=counted))


@pytest.mark.parametrize("period", ["day", "month", "total"])
def test_a_budget_is_shown_with_what_is_spent(client: httpx.Client, service: Service, period: str) -> None:
    assert client.get(PATH).json() == {**NONE, "spent_cost": 0, "spent_tokens": 0, "is_spent": False}
    sent = {"cost": 1.5, "tokens": 1000, "currency": "EUR", "period": period}
    budget = {**sent, "not_limited": []}
    unspent = {**budget, "spent_cost": 0, "spent_tokens": 0, "is_spent": False}
    assert client.put(PATH, json=sent).json() == unspent
    spend(service, 5, "USD")
    spend(service, 1, "EUR")
    spend(service, 1, "EUR", "other")
    assert client.get(PATH).json() == {**budget, "spent_cost": 1, "spent_tokens": 240, "is_spent": False}
    last = spend(service, 0.5, "EUR")
    assert last.budget is not None
    assert last.project.used_up(last.budget), "what asks read says the same"
    assert client.get(PATH).json() == {**budget, "spent_cost": 1.5, "spent_tokens": 360, "is_spent": True}
    more = {"tokens": 361, "period": period}
    assert client.put(PATH, json=more).json() == {
        **NONE,
        **more,
        "spent_cost": 5,
        "spent_tokens": 360,
        "is_spent": False,
    }
    for _ in range(2):  # there is a line of the audit for the first
        assert client.delete(PATH).status_code == 204
    assert client.get(PATH).json() == {**NONE, "spent_cost": 5, "spent_tokens": 360, "is_spent": False}
    actions = [(line["action"], line["object"]) for line in client.get(f"{PROJECT}/audit").json()]
    assert actions == [("budget.delete", "default"), ("budget.update", "default"), ("budget.update", "default")]


@pytest.mark.usefixtures("here")
def test_models_without_a_price_in_the_currency_are_named(client: httpx.Client) -> None:
    euro = {"input": 1, "output": 1, "currency": "EUR"}
    for key, price in {"free": None, "euro": euro, "nothing": {"input": 0, "output": 0}}.items():
        model = {"key": key, "base_url": "http://127.0.0.1:1/v1", "model": "m", "price": price}
        client.post(f"{PROJECT}/models", json=model).raise_for_status()
    assert client.put(PATH, json={"cost": 1}).json()["not_limited"] == ["euro", "free"]
    assert client.put(PATH, json={"cost": 1, "currency": "EUR"}).json()["not_limited"] == ["free", "nothing"]
    assert client.put(PATH, json={"tokens": 1}).json()["not_limited"] == []


def test_what_was_spent_before_the_period_is_not_counted(client: httpx.Client, service: Service) -> None:
    client.put(PATH, json={"cost": 1}).raise_for_status()
    service.store.redis.hset("gradebox:spent:default:2001-01", "cost:USD", 10**12)
    service.store.redis.hset("gradebox:spent:default", "cost:USD", 10**12)
    found = client.get(PATH).json()
    assert (found["period"], found["spent_cost"], found["is_spent"]) == ("month", 0, False)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"period": "month"},
        {"cost": -1},
        {"tokens": 1.5},
        {"cost": 1, "currency": "usd"},
        {"cost": 1, "period": "week"},
        {"cost": 1, "spent_cost": 0},
    ],
)
def test_what_is_no_budget(client: httpx.Client, body: dict[str, object]) -> None:
    problem(client.put(PATH, json=body), 422, "invalid-request")
    assert client.get(PATH).json()["cost"] is None
