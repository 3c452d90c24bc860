import asyncio
from uuid import uuid4

import pytest

import gradebox
from gradebox import AsyncGraderHandle, Client, GraderHandle
from tests.gradebox.conftest import Service

SAME = """
from gradebox import NotApplicable


async def grade(thread):
    if thread.completion() == "bad":
        raise ValueError("no answer at all")
    if thread.completion() == "off":
        raise NotApplicable("nothing to compare")
    return float(thread.metadata["answer"] == thread.completion())
"""


@pytest.fixture
def grader(client: Client) -> GraderHandle:
    """A grader: 1.0 if the completion is the answer, no score for "bad", not applicable to "off"."""
    key = f"same-{uuid4().hex[:8]}"
    client.graders.create.function(key=key, fn=SAME, threads=[{"completion": "4", "metadata": {"answer": "4"}}])
    return client.graders.get(key)


@pytest.fixture
def awaited(service: Service, grader: GraderHandle) -> AsyncGraderHandle:
    """The same grader, of the client that awaits."""
    return asyncio.run(awaiting(service).graders.get(grader.key))


def awaiting(service: Service) -> gradebox.AsyncClient:
    return gradebox.AsyncClient(service.url, service.key)
