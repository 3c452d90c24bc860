"""Tests of graders that ask other graders, in real sandboxes."""

import json

import pytest

from models.asks.ask_context import AskContext
from models.scoring.validation_asks import asker_of
from models.settings import ModelSettings
from sandbox.pool.pool import Pool
from storage.store import Store
from tests.storage.making import proved

pytestmark = pytest.mark.sandbox

INNER = """
from gradebox import Model
judge = Model("judge")
async def grade(thread):
    return (await judge.chat(thread.completion(), schema={"const": 0.5})).data
"""


def test_where_stand_ins_answer_the_graders_that_are_asked_ask_no_server_either(store: Store, pool: Pool) -> None:
    store.graders.create("default", "inner", "inner", "", proved(INNER, asks=["model:judge"]))
    asker = asker_of(store, ModelSettings(), pool)
    request = b'{"ask":"grader","name":"inner","thread":{"completion":"x"}}'
    context = AskContext("default", "outer", "outer@1", asks={"grader:inner": "inner@1"})
    try:
        asked = json.loads(asker.ask(request, context, lambda: True).result(30).body)
        stood_in = json.loads(asker.ask(request, context._replace(stand_in=True), lambda: True).result(30).body)
    finally:
        asker.close()
    assert asked["error"]["kind"] == "failed"  # there is no such model
    assert stood_in["reply"]["score"] == 0.5
