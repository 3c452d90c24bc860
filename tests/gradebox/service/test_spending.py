"""Tests of costs: of asks by outcome, batch, grader and project, and of a budget that is used up."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from examples.model_server import ModelServer, Script
from gradebox import Client
from gradebox.schemas import Spending
from tests.gradebox.conftest import Service, scored
from tests.gradebox.service.test_asking_batches import JUDGE, REPLY, threads

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

ASK = 0.02  # the cost of one ask: the server counts 10 tokens of input and 5 of output


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(Script(reply=REPLY, latency_s=0.05)) as server:
        yield server


@pytest.fixture
def client(service: Service, server: ModelServer) -> Iterator[Client]:
    """A client of a new project, with a judge whose proof has asked once."""
    with service.new_project() as client:
        client.models.create(
            "small-judge", base_url=server.base_url, model="m", max_concurrency=2, input_price=1_000, output_price=2_000
        )
        client.graders.create.function(key="polite", fn=JUDGE)
        yield client


def done(client: Client, sent: list[dict[str, object]]) -> tuple[Spending, list[float], Counter[str | None]]:
    """The spending of a batch of these threads, the cost of each outcome, and the causes of errors."""
    batch = scored(client, "polite", sent)
    spent = batch.summary[0].spent
    assert spent is not None
    outcomes = list(batch.outcomes())
    assert all(outcome.spent is not None for outcome in outcomes)
    costs = [outcome.spent.usd for outcome in outcomes if outcome.spent is not None]
    assert sum(costs) == pytest.approx(spent.usd)
    assert sum(one.spent.asks for one in outcomes if one.spent) == spent.asks
    assert sum(one.spent.kept for one in outcomes if one.spent) == spent.kept
    return spent, costs, Counter(one.error.cause if one.error else None for one in outcomes)


def test_what_asks_cost_is_told_by_outcome_batch_grader_and_project(
    service: Service, server: ModelServer, client: Client
) -> None:
    sent = threads(20, "judged") + threads(10, "judged")  # ten are equal
    spent, costs, _ = done(client, sent)
    assert (spent.asks, spent.kept, spent.input_tokens, spent.output_tokens) == (30, 10, 200, 100)
    assert spent.usd == pytest.approx(20 * ASK)
    assert sorted(costs) == pytest.approx([0.0] * 10 + [ASK] * 20)
    assert len(server.bodies) == 21  # one of them from the proof
    told = client.spending()
    assert (told.total.asks, told.total.kept, told.total.input_tokens) == (31, 10, 210)  # one ask is the proof's
    assert told.total.usd == pytest.approx(21 * ASK)
    assert told.by["model:small-judge"] == told.total
    polite = told.by["grader:polite"]
    assert (polite.asks, polite.kept) == (30, 10)
    assert polite.usd == pytest.approx(20 * ASK)
    now = datetime.now(UTC)
    assert client.spending(f"{now:%Y-%m}").total == told.total

    again, costs, _ = done(client, sent)
    assert (again.asks, again.kept, again.usd, set(costs)) == (30, 30, 0.0, {0.0})
    assert client.spending().total.usd == told.total.usd
    assert len(server.bodies) == 21
    shown = json.loads(service.run("spending", "--project", client.project, "--json").stdout)
    assert shown["total"]["usd"] == pytest.approx(21 * ASK)


ASKS_ANEW = """
import asyncio
from gradebox import Endpoint, Model, Score

judge, reward = Model("asked-anew"), Endpoint("my-reward")


async def grade(thread: StringThread) -> float:
    same = [judge.chat([{"role": "user", "content": "?"}]) for _ in range(2)]
    replies = await asyncio.gather(*same, reward.score(thread))
    return Score(0.5, reason=replies[0].text)
"""


def test_a_proof_asks_once_also_what_is_not_kept(server: ModelServer, client: Client) -> None:
    """Its second run asked again, at the same cost; a reply that then differed was a warning of the grader's."""
    client.models.create("asked-anew", base_url=server.base_url, model="m", keep_replies=False)
    client.endpoints.create("my-reward", url=server.base_url)
    before = len(server.bodies)
    client.graders.create.function(key="anew", fn=ASKS_ANEW)
    assert len(server.bodies) == before + 3


def test_a_budget_ends_the_asking_of_a_batch_in_the_middle(server: ModelServer, client: Client) -> None:
    most = 11 * ASK  # one for the proof, and ten more
    assert not client.budget.set(usd=most, period="total").is_spent
    sent = threads(60, "bounded")
    spent, costs, causes = done(client, sent)
    asked = len(server.bodies) - 1
    assert 10 <= asked <= 12  # exceeds the budget only by the asks that were running
    assert causes == {None: asked, "over_budget": 60 - asked}
    assert spent.usd == pytest.approx(asked * ASK)
    assert costs.count(0.0) == 60 - asked
    budget = client.budget.get()
    assert budget.is_spent
    assert budget.spent_usd == pytest.approx((asked + 1) * ASK)
    assert client.spending().total.usd == pytest.approx(budget.spent_usd)

    (batch,) = client.batches.list()
    assert batch.errors == {"model": 60 - asked}
    assert batch.retry().state == "finished"  # an error because of the budget is final
    (outcome,) = client.score("polite", threads(1, "more"))
    assert outcome.error is not None and (outcome.error.cause, outcome.error.retryable) == ("over_budget", False)
    assert len(server.bodies) == asked + 1

    client.budget.set(usd=100, period="total")
    spent, _, causes = done(client, sent)
    assert (causes, spent.kept) == ({None: 60}, asked)
    assert spent.usd == pytest.approx((60 - asked) * ASK)
