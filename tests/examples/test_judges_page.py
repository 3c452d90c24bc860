"""Tests of the examples in docs/judges.md."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gradebox.client._sync.creation import Creation
from gradebox.judges.kind_source import source_of
from gradebox.judges.templates import RENDERED_CHARACTERS, TEMPLATE_CHARACTERS
from sandbox.pool.pool import Pool
from tests.models.scoring.test_asking_scorer import Scripted, proved_and_scored, text

PAGE = (Path(__file__).parents[2] / "docs" / "judges.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CALLS = [block for block in BLOCKS if block.startswith("client.")]
GRADERS = [block for block in BLOCKS if "async def grade" in block]
SCRIPTS = [block for block in BLOCKS if "testing.model" in block]
PASS = '{"reasoning": "so it is", "score": "PASS"}'
REASONS = {True: "1 of 1 claims are supported by the context"}


def replied(request: dict[str, Any]) -> dict[str, Any]:
    asked, members = request["messages"][-1]["content"], request.get("schema", {}).get("properties", {})
    if "claims" in members:
        return text('{"claims": ["It is 5 km."]}')
    if "1" in members:
        return text('{"1": {"reason": "it says so", "supported": true}}')
    if "option" in members:
        options = members["option"]["enum"]
        return text(json.dumps({"reasoning": "so it is", "option": "warm" if "warm" in options else options[0]}))
    return text("so it is" if "Assess step by step" in asked else PASS)


def test_every_block_is_tried() -> None:
    assert (len(CALLS), len(GRADERS), len(SCRIPTS)) == (7, 6, 1)
    assert len(BLOCKS) == 14


@pytest.mark.parametrize("block", CALLS)
def test_a_call_is_as_the_client_takes_it(block: str) -> None:
    class Create:
        def __getattr__(self, name: str) -> Any:
            signature = inspect.signature(getattr(Creation, name))
            return lambda **given: signature.bind(None, **given)

    create = Create()
    client = type("Client", (), {"graders": type("Graders", (), {"create": create})})
    exec(block, {"client": client})


@pytest.mark.sandbox
@pytest.mark.parametrize("block", GRADERS, ids=["written", "part", "own", "template", "options", "claims"])
def test_a_grader_is_valid_and_scores(block: str, pool: Pool) -> None:
    line = b'{"prompt": "How far?", "completion": "5 km", "metadata": {"answer": "5", "documents": "It is 5 km."}}'
    asker = Scripted(replied)
    outcome = proved_and_scored(pool, block, asker, line)
    assert (outcome.score, outcome.reason) == (1.0, REASONS.get("Faithful" in block, "so it is"))
    if "TEMPLATE" in block:
        prompt = asker.requests[-1]["messages"][-1]["content"]
        assert "Reference: 5\nAnswer: 5 km\nCase 0: 5 -> {" in prompt


def test_what_is_printed_as_written_is() -> None:
    assert source_of("binary_judge", {"criteria": "The answer is polite", "model": "small-judge"}) == GRADERS[0]


def test_a_test_without_a_service_passes() -> None:
    exec(SCRIPTS[0], {})


def test_bounds_are_those_of_the_code() -> None:
    assert f"{TEMPLATE_CHARACTERS:,} characters" in PAGE
    assert RENDERED_CHARACTERS == 2**20
