"""Tests of the spending on asks over HTTP."""

from datetime import UTC, datetime

import httpx
import pytest

from gradebox.outcome import Spent
from tests.api.conftest import PROJECT, Service, problem
from tests.api.routes.conftest import spend

PATH = f"{PROJECT}/spending"
NOTHING = {"asks": 0, "kept": 0, "input_tokens": 0, "output_tokens": 0, "usd": 0}


def test_it_is_told_of_all_and_of_each(client: httpx.Client, service: Service) -> None:
    assert client.get(PATH).json() == {"total": NOTHING, "by": {}}
    spend(service, Spent(1, 0, 100, 20, 0.25))
    spend(service, Spent(1, 1))
    spend(service, Spent(1, 0, 10, 2, 0.5), "model:cost")
    spend(service, Spent(1), "endpoint:model")
    spend(service, Spent(1, 0, 7, 7, 7.0), project="other")
    total = {"asks": 4, "kept": 1, "input_tokens": 110, "output_tokens": 22, "usd": 0.75}
    of_cost = {**NOTHING, "asks": 1, "input_tokens": 10, "output_tokens": 2, "usd": 0.5}
    of_judge = {"asks": 2, "kept": 1, "input_tokens": 100, "output_tokens": 20, "usd": 0.25}
    found = client.get(PATH).json()
    assert found["total"] == total
    assert found["by"] == {
        "endpoint:model": {**NOTHING, "asks": 1},
        "grader:polite": total,
        "model:cost": of_cost,
        "model:judge": of_judge,
    }


def test_a_day_and_a_month_are_told_apart(client: httpx.Client, service: Service) -> None:
    month = f"{datetime.now(UTC):%Y-%m}"
    spend(service, Spent(1, 0, 100, 20, 0.25))
    service.store.redis.hset("gradebox:spent:default:2001-02", mapping={"asks": 3, "cost:USD": 10**9})
    assert client.get(f"{PATH}?period=2001-02").json() == {
        "total": {**NOTHING, "asks": 3, "usd": 1.0},
        "by": {},
    }
    assert client.get(f"{PATH}?period=2001-02-03").json()["total"] == NOTHING
    assert client.get(f"{PATH}?period={month}").json()["total"]["usd"] == 0.25
    assert client.get(PATH).json()["total"]["asks"] == 1


_NO_PERIODS = [
    "2026",
    "2026-11-23T00",
    "total",
    "2026-11%0A",
    "*",
    "other:2026-11",
    "2026-13",
    "2026-1",
    "2026-11-31",
    "٢٠٢٦-11",
]


@pytest.mark.parametrize("period", _NO_PERIODS)
def test_what_is_no_period(client: httpx.Client, period: str) -> None:
    detail = problem(client.get(f"{PATH}?period={period}"), 422, "invalid-request")
    assert detail.startswith("period is a day such as 2026-11-23 or a month such as 2026-11, and not ")
