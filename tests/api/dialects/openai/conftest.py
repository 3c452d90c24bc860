"""Fixtures for the client of openai.

It takes half a second to import: each test process would spend it on collecting the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from examples.model_server import ModelServer
from tests.gradebox.conftest import Service

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI
    from openai.resources.fine_tuning.alpha import Graders
    from openai.types.fine_tuning.alpha import GraderRunResponse

SAME = "def grade(sample, item):\n    return float(sample['output_text'] == item['answer'])\n"


def python(source: str = SAME, **more: Any) -> Any:
    return {"type": "python", "name": "same", "source": source, **more}


def check(operation: str = "eq", input: str = "{{ sample.output_text }}", reference: str = "{{item.answer}}") -> Any:  # noqa: A002  # the name in graders
    return {"type": "string_check", "name": "check", "operation": operation, "input": input, "reference": reference}


def similar(metric: str, input: str = "{{ sample.output_text }}") -> Any:  # noqa: A002  # the name in graders
    name = {"type": "text_similarity", "name": metric}
    return name | {"input": input, "reference": "{{ item.answer }}", "evaluation_metric": metric}


def multi(formula: str, **graders: Any) -> Any:
    return {"type": "multi", "name": "all", "graders": graders, "calculate_output": formula}


def asking(kind: str, model: str = "judge", **more: Any) -> Any:
    """A grader that asks a model whether a sample answers a question."""
    turn = {"role": "user", "content": "Is {{ sample.output_text }} right for {{ item.question }}?"}
    return {"type": kind, "name": kind, "model": model, "input": [turn], **more}


def has_none(answer: GraderRunResponse) -> bool:
    """Whether there is no reward. The client's type does not allow this."""
    reward: object = answer.reward
    return reward is None


@pytest.fixture(scope="session")
def model_server(service: Service) -> Iterator[ModelServer]:
    """A server for the service's models. `judge` and `fresh` follow its script, others the behaviour in their name."""
    with ModelServer() as server:
        models = service.client().models
        for key, name in (("judge", "m"), ("fresh", "m"), ("refuses", "behave:refusal"), ("cuts", "behave:cut-off")):
            models.create(key, base_url=server.base_url, model=name, keep_replies=False)
        models.create("chatty", base_url=server.base_url, model="behave:prose", keep_replies=False)
        yield server


@pytest.fixture(scope="session")
def client(service: Service) -> Iterator[OpenAI]:
    """The real client without retries, so that a test sees each answer."""
    from openai import OpenAI

    with OpenAI(base_url=f"{service.url}/openai/v1", api_key=service.key, max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def graders(client: OpenAI) -> Graders:
    return client.fine_tuning.alpha.graders


def refused(match: str | None = None, error: str = "BadRequestError") -> pytest.RaisesExc[APIStatusError]:
    """Expects an error of the API, raised by the client."""
    import openai

    return pytest.raises(getattr(openai, error), match=match)
