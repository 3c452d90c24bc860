"""Tests with the AWS SDK for JavaScript, which Langfuse uses."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.api.dialects.conftest import LANGFUSE_SECRET
from tests.api.dialects.langfuse.conftest import PYTHON_FUNCTION, evaluation
from tests.gradebox.conftest import Service

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(shutil.which("npm") is None, reason="the SDK needs node and npm"),
]
SDK = Path(__file__).with_name("aws_sdk")

Invoke = Callable[[str, str, list[dict[str, Any]]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def invoke(tmp_path_factory: pytest.TempPathFactory) -> Invoke:
    folder = tmp_path_factory.mktemp("sdk")
    for name in ("package.json", "package-lock.json", "invoke.js"):
        shutil.copyfile(SDK / name, folder / name)
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder, check=True)

    def invoke(endpoint: str, secret: str, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        lines = "".join(json.dumps({"name": PYTHON_FUNCTION, "body": json.dumps(body)}) + "\n" for body in bodies)
        command = ["node", "invoke.js", endpoint, secret]
        done = subprocess.run(command, cwd=folder, input=lines, capture_output=True, text=True, timeout=60, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    return invoke


def test_scores_and_errors(service: Service, invoke: Invoke) -> None:
    source = "def evaluate(ctx):\n    return {'scores': [Score(ctx.observation.output, 'o', comment='né')]}"
    raises = evaluation("def evaluate(ctx):\n    return 1 / 0")
    for slash in ("", "/"):
        answers = invoke(f"{service.url}/langfuse/v1{slash}", LANGFUSE_SECRET, [evaluation(source, output="ü"), raises])
        assert answers[0] == {"payload": {"scores": [{"name": "o", "value": "ü", "comment": "né"}]}}
        assert answers[1]["payload"]["error"]["code"] == "USER_CODE_ERROR"


def test_what_is_final_is_sent_once(service: Service, invoke: Invoke) -> None:
    (denied,) = invoke(f"{service.url}/langfuse/v1", "not-the-secret-at-all", [evaluation()])
    assert (denied["error"], denied["attempts"]) == ("AccessDeniedException", 1)
    (invalid,) = invoke(f"{service.url}/langfuse/v1", LANGFUSE_SECRET, [{"scope": {}}])
    assert (invalid["error"], invalid["attempts"]) == ("InvalidParameterValueException", 1)
