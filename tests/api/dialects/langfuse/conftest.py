import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.api.dialects.conftest import LANGFUSE_SECRET
from tests.gradebox.conftest import Service

PYTHON_FUNCTION = "code-based-eval-executor-python"
ONE = "def evaluate(ctx):\n    return EvaluationResult(scores=[Score(value=1, name='one')])\n"

Evaluate = Callable[..., dict[str, Any]]


def evaluation(
    source: str = ONE,
    *,
    language: str = "PYTHON",
    project: str = "langfuse-project",
    experiment: Any = None,
    **observation: Any,
) -> dict[str, Any]:
    """A request in Langfuse's format."""
    members: dict[str, Any] = {"input": {"question": "capital?"}, "output": "Paris", "metadata": None, "toolCalls": []}
    payload = {"observation": {**members, **observation}}
    return {
        "scope": {"organizationId": "organization", "projectId": project, "evaluatorId": "evaluator"},
        "runtime": {"language": language},
        "execution": {"jobExecutionId": "job"},
        "code": {"source": source},
        "payload": payload if experiment is None else {**payload, "experiment": experiment},
    }


def lambda_client(url: str, secret: str = LANGFUSE_SECRET) -> Any:
    """The AWS SDK for Python, without retries, so that a test sees each answer."""
    import boto3  # here, because each test process would import it to collect the tests
    from botocore.config import Config

    return boto3.client(
        "lambda",
        endpoint_url=url,
        region_name="eu-central-1",
        aws_access_key_id="any",
        aws_secret_access_key=secret,
        config=Config(retries={"max_attempts": 0}, read_timeout=30),
    )


@pytest.fixture(scope="session")
def functions(service: Service) -> Any:
    return lambda_client(f"{service.url}/langfuse/v1")


@pytest.fixture(scope="session")
def evaluate(functions: Any) -> Evaluate:
    """Sends an evaluation and returns the answer."""

    def invoke(*args: Any, **more: Any) -> dict[str, Any]:
        answer = functions.invoke(FunctionName=PYTHON_FUNCTION, Payload=json.dumps(evaluation(*args, **more)))
        assert answer["StatusCode"] == 200 and "FunctionError" not in answer
        read: dict[str, Any] = json.loads(answer["Payload"].read())
        return read

    return invoke
