"""Tests of graders with OpenAI's contract, kept like other graders."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import gradebox
from gradebox import AsyncClient, Client, ValidationError
from tests.gradebox.conftest import Service, scored

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

ALIASES = {"four": "4"}
SOURCE = "def grade(sample, item):\n    return float(sample['output_text'] == item['answer'])\n"
ROWS = [{"completion": said, "metadata": {"answer": "4"}} for said in ("4", "5")]


def normal(text: str) -> str:
    return ALIASES.get(text, text)


def mine(sample: dict[str, str], item: dict[str, str]) -> float:
    return float(normal(sample["output_text"]) == item["answer"])


async def awaited(sample: dict[str, str], item: dict[str, str]) -> float:
    return mine(sample, item) / 2


@pytest.fixture
def key() -> str:
    return f"openai-{uuid4().hex[:8]}"


def test_a_function_with_what_it_uses_scores_a_batch(client: Client, key: str) -> None:
    client.graders.create.python(key=key, fn=mine, description="equality", threads=ROWS)
    batch = scored(client, key, [*ROWS, {"completion": "four", "metadata": {"answer": "4"}}])
    assert [outcome.score for outcome in batch.outcomes()] == [1.0, 0.0, 1.0]


def test_a_source_or_a_coroutine_function(client: Client, key: str) -> None:
    grader = client.graders.create.python(key=key, source=SOURCE, threads=ROWS)
    assert (grader.version, grader.isolation) == (1, "batch")
    assert [outcome.score for outcome in client.score(key, ROWS)] == [1.0, 0.0]
    assert client.graders.update(key, fn=gradebox.openai_grader(awaited), threads=ROWS).version == 2
    assert [outcome.score for outcome in client.score(key, ROWS)] == [0.5, 0.0]


def test_tool_calls_of_the_completion(client: Client, key: str) -> None:
    source = """
def grade(sample, item):
    (choice,) = sample["choices"]
    assert choice["message"].get("tool_calls", []) == sample["output_tools"]
    assert (choice["finish_reason"] == "tool_calls") == bool(sample["output_tools"])
    return float([call["function"]["name"] for call in sample["output_tools"]] == ["add"])
"""
    asks = {"role": "user", "content": "2+2?"}
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    calls = {"role": "assistant", "content": None, "tool_calls": [call]}
    answers = [{"role": "tool", "tool_call_id": "c", "content": "4"}, {"role": "assistant", "content": "4"}]
    rows: list[dict[str, Any]] = [{"messages": [asks, calls]}, {"messages": [asks, calls, *answers]}, ROWS[0]]
    client.graders.create.python(key=key, source=source, threads=rows)
    assert [outcome.score for outcome in client.score(key, rows)] == [1.0, 0.0, 0.0]


def test_awaiting(service: Service, key: str) -> None:
    async def create() -> list[float | None]:
        async with AsyncClient(service.url, service.key) as client:
            await client.graders.create.python(key=key, source=SOURCE, threads=ROWS)
            return [outcome.score for outcome in await client.score(key, ROWS)]

    assert asyncio.run(create()) == [1.0, 0.0]


def test_one_of_the_two_is_given(client: Client, key: str) -> None:
    for arguments in ({}, {"fn": mine, "source": SOURCE}):
        with pytest.raises(TypeError, match="fn=, or as its source"):
            client.graders.create.python(key=key, **arguments)  # type: ignore[arg-type]  # tested here


def test_what_goes_wrong_is_told_of_the_users_lines(client: Client, key: str) -> None:
    with pytest.raises(ValidationError, match=r"KeyError: 'answer'.*threads="):
        client.graders.create.python(key=key, source=SOURCE)
    source = "x = 1\n\ndef grade(sample, item):\n    return item['y'] / 0\n"
    with pytest.raises(ValidationError) as failed:
        client.graders.create.python(key=key, source=source, threads=[{"completion": "4", "metadata": {"y": 1}}])
    check = failed.value.report.failed
    assert check is not None and check.name == "test_run"
    assert check.traceback is not None and re.findall(r"line \d+, in .*", check.traceback) == ["line 4, in grade"]


def test_a_thread_without_a_completion_has_no_score(client: Client, key: str) -> None:
    client.graders.create.python(key=key, source=SOURCE, threads=ROWS)
    error = client.score(key, [{"messages": [{"role": "user", "content": "2+2?"}]}])[0].error
    assert error is not None and "no completion" in error.message


def test_a_file_from_the_command_line(service: Service, key: str, tmp_path: Path) -> None:
    file, rows = tmp_path / "grader.py", tmp_path / "rows.jsonl"
    file.write_text(SOURCE)
    rows.write_text("\n".join(json.dumps(row) for row in ROWS))
    options = ("--contract", "openai", "--threads", str(rows))
    service.ok("validate", str(file), *options)
    created = service.run("graders", "create", key, str(file), *options)
    assert created.stdout == f"created {key}@1 (isolation: batch)\n", created.stderr
    assert service.run("graders", "update", key, str(file), *options).stdout.startswith(f"updated {key}@1 ")
    assert "with `--contract openai` on the command line" in service.run("validate", str(file)).stdout


def test_a_json_grader_from_the_command_line(service: Service, key: str, tmp_path: Path) -> None:
    file, rows = tmp_path / "grader.json", tmp_path / "rows.jsonl"
    rows.write_text("\n".join(json.dumps(row) for row in ROWS))
    file.write_text(json.dumps({"type": "python", "name": "same", "source": SOURCE}))
    options = ("--contract", "openai", "--threads", str(rows))
    service.ok("graders", "create", key, str(file), *options)
    assert [outcome.score for outcome in service.client().score(key, ROWS)] == [1.0, 0.0]
    file.write_text(json.dumps({"type": "string_check", "name": "same", "input": "4", "reference": "4"}))
    refused = service.run("graders", "create", f"{key}-2", str(file), *options)
    assert refused.returncode == 1 and "is a JSON grader of the type 'string_check': only the type" in refused.stderr
