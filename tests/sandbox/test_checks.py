"""Tests of checks in a function grader, in a real sandbox."""

import json

import pytest

from gradebox.outcome import details_of
from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool

pytestmark = pytest.mark.sandbox

SOURCE = """
from gradebox import StringThread
from gradebox.checks import called, contains, run_all


async def grade(thread: StringThread) -> float:
    if thread.metadata.get("alone"):
        return contains("4")(thread)
    return run_all([contains("4"), called("add", {"a": 2}, times=1)], thread)
"""
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 2}'}}
AGENT = {
    "messages": [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
        {"role": "assistant", "content": "It is 4."},
    ]
}
TOLD = {"messages": [{"role": "tool", "content": "4"}, {"role": "assistant", "content": "4"}]}


def test_scores_reasons_details_and_errors(pool: Pool) -> None:
    source = GraderSource(SOURCE, project="p")
    assert pool.prove(source).valid
    threads = [{"completion": "five", "metadata": {"alone": True}}, AGENT, {"completion": "5"}, TOLD]
    payload = "\n".join(map(json.dumps, threads)).encode()
    with pool.grading(source) as grading:
        alone, passed, failed, wrong = grading.score(payload, 0, "g@1")
    assert (alone.score, alone.reason) == (0.0, "expected '4' in the completion, found 'five'")
    assert (passed.score, (details_of(passed) or {})["summary"]["total_steps"]) == (1.0, 2)
    assert (failed.score, (details_of(failed) or {})["summary"]["failed_count"]) == (0.0, 2)
    assert wrong.score is None
    assert wrong.error is not None and (wrong.error.kind, '"tool_calls"' in wrong.error.message) == ("exception", True)
