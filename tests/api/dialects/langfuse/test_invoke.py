"""Tests of Lambda's Invoke with the AWS SDK for Python. docs/langfuse.md gives the expected results."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from hashlib import sha256
from typing import Any

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.api.dialects.conftest import LANGFUSE_SECRET
from tests.api.dialects.langfuse.conftest import ONE, PYTHON_FUNCTION, Evaluate, evaluation, lambda_client
from tests.gradebox.conftest import Service

pytestmark = pytest.mark.service

REAL = '''
"""Judges an answer by its words."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass
class Found:
    words: int
    calls: list[str]


def look(ctx: EvaluationContext) -> Found:
    calls = [f"{call.name}{call.index}" for call in ctx.observation.tool_calls]
    return Found(len(re.findall(r"[^\\W\\d_]+", ctx.observation.output)), calls)


def evaluate(ctx: EvaluationContext) -> EvaluationResult:
    found = look(ctx)
    expected = ctx.experiment.item_expected_output if ctx.experiment else None
    return EvaluationResult(
        scores=[
            Score(name="words", value=found.words, data_type="NUMERIC", comment="Wörter"),
            Score(name="right", value=ctx.observation.output == expected, data_type="BOOLEAN"),
            Score(name="tools", value=",".join(found.calls), data_type="CATEGORICAL", metadata={"in": None}),
            Score(name="why", value="it says so", data_type="TEXT", config_id="c"),
        ]
    )
'''
CALL = {"id": "1", "name": "search", "arguments": "{}", "type": "function", "index": 0}


def test_an_evaluator_with_every_kind_of_score(evaluate: Evaluate) -> None:
    experiment = {"itemExpectedOutput": "Zürich ist schön", "itemMetadata": None}
    assert evaluate(REAL, output="Zürich ist schön", toolCalls=[CALL], experiment=experiment) == {
        "scores": [
            {"name": "words", "value": 3, "dataType": "NUMERIC", "comment": "Wörter"},
            {"name": "right", "value": True, "dataType": "BOOLEAN"},
            {"name": "tools", "value": "search0", "dataType": "CATEGORICAL", "metadata": {"in": None}},
            {"name": "why", "value": "it says so", "dataType": "TEXT", "configId": "c"},
        ]
    }
    assert evaluate(REAL, output="Paris")["scores"][1]["value"] is False


@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        ("def evaluate(ctx)\n    pass", "INVALID_SOURCE", "SyntaxError: expected ':' (line 1)"),
        ("import numpy\n" + ONE, "INVALID_SOURCE", "ModuleNotFoundError: No module named 'numpy'"),
        ("x = 1\n", "INVALID_SOURCE", "there is no `evaluate`"),
        ("evaluate = 1\n", "INVALID_SOURCE", "`evaluate` is of type `int`"),
        (ONE + "\nraise OSError('away')", "INVALID_SOURCE", "OSError: away (line 4)"),
        ("import os\nos._exit(0)\n", "INVALID_SOURCE", "cannot be loaded (execution)"),
        ("x = '\0'\n" + ONE, "INVALID_SOURCE", "null byte"),
        ("x = '\ud800'\n" + ONE, "INVALID_SOURCE", "UTF-8"),
        ("#" * 300_000, "SOURCE_TOO_LARGE", "262144"),
        ("def evaluate(ctx):\n    return 1 / 0", "USER_CODE_ERROR", "ZeroDivisionError: division by zero (line 2)"),
        ("def evaluate(ctx):\n    raise SystemExit(1)", "USER_CODE_ERROR", "SystemExit: 1 (line 2)"),
        ("import os\ndef evaluate(ctx):\n    os._exit(0)", "USER_CODE_ERROR", "ended itself"),
        ("import os\ndef evaluate(ctx):\n    os.kill(0, 9)", "USER_CODE_ERROR", ""),
        ("def evaluate(ctx):\n    a = []\n    while True: a.append(bytearray(1 << 24))", "USER_CODE_ERROR", "Memory"),
        ("def evaluate(ctx):\n    return None", "INVALID_RESULT", "the result of `evaluate` is None"),
        ("def evaluate(ctx):\n    return [1]", "INVALID_RESULT", "the result of `evaluate` is of type `list`"),
        ("def evaluate(ctx):\n    return {'scores': []}", "INVALID_RESULT", "at least one"),
        ("def evaluate(ctx):\n    return {'scores': [1]}", "INVALID_RESULT", "scores[0]"),
        ("def evaluate(ctx):\n    return {'scores': [{'name': 'a'}]}", "INVALID_RESULT", "no value"),
        ("def evaluate(ctx):\n    return {'scores': [Score(float('nan'), 'a')]}", "INVALID_RESULT", "nan is no number"),
        ("def evaluate(ctx):\n    return {'scores': [Score(True, 'a')]}", "INVALID_RESULT", 'data_type="BOOLEAN"'),
        ("def evaluate(ctx):\n    return {'scores': [Score(1, 'a', comment='x' * 300_000)]}", "RESULT_TOO_LARGE", ""),
    ],
)
def test_errors_have_codes_by_which_langfuse_decides(evaluate: Evaluate, source: str, code: str, message: str) -> None:
    for _ in range(2):  # a loaded source gives the same answer
        answer = evaluate(source)
        assert set(answer) == {"error"} and set(answer["error"]) == {"code", "message"}
        assert answer["error"]["code"] == code
        assert message in answer["error"]["message"]


def test_typescript_ends_cleanly(evaluate: Evaluate) -> None:
    assert evaluate("export function evaluate(ctx) {}", language="TYPESCRIPT")["error"]["code"] == "UNSUPPORTED_RUNTIME"


@pytest.mark.parametrize(
    "source",
    [
        "async def evaluate(ctx):\n    return {'scores': [{'name': 'a', 'value': 1, 'comment': None}]}",
        "import asyncio\nasync def evaluate(ctx):\n    await asyncio.sleep(0.01)\n"
        "    return {'scores': [Score(1, 'a')]}",
        "import asyncio\nasync def one():\n    return 1\n"
        "def evaluate(ctx):\n    return {'scores': [Score(asyncio.run(one()), 'a')]}",
        "if True:\n    def evaluate(ctx):\n        return {'scores': (Score(1, 'a'),)}",
        "import asyncio, signal\nasync def one():\n    return 1\n"
        "def evaluate(ctx):\n    signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        "    loop = asyncio.new_event_loop()\n"
        "    return {'scores': [Score(loop.run_until_complete(one()), 'a')]}",
        "import asyncio\nasync def one():\n    return 1\n"
        "def evaluate(ctx):\n    try:\n        asyncio.get_running_loop()\n    except RuntimeError:\n"
        "        return {'scores': [Score(asyncio.run(one()), 'a')]}",
        "def evaluate(ctx):\n    import asyncio\n    async def one():\n        return 1\n"
        "    return {'scores': [Score(asyncio.run(one()), 'a')]}",
    ],
    ids=["async", "awaits", "own-loop", "inside-if", "main-thread", "looks-for-a-loop", "imports-late"],
)
def test_forms_of_evaluate(evaluate: Evaluate, source: str) -> None:
    assert evaluate(source) == {"scores": [{"name": "a", "value": 1}]}


def test_chance_is_new_for_each_observation(evaluate: Evaluate) -> None:
    for before in ("import random\n", ""):
        source = before + "def evaluate(ctx):\n    import random\n    return {'scores': [Score(random.random(), 's')]}"
        assert len({evaluate(source)["scores"][0]["value"] for _ in range(4)}) == 4


def test_what_is_large_is_taken(evaluate: Evaluate) -> None:
    source = "#" * 250_000 + "\ndef evaluate(ctx):\n"
    source += "    return {'scores': [Score(len(ctx.observation.output), 'n', comment='é' * 120_000)]}"
    answer = evaluate(source, output="x" * 5_000_000)
    assert answer["scores"][0]["value"] == 5_000_000 and len(answer["scores"][0]["comment"]) == 120_000


def test_an_observation_that_is_odd(evaluate: Evaluate) -> None:
    source = "def evaluate(ctx):\n    return {'scores': [Score(repr(ctx.observation.output), 'r')]}"
    assert evaluate(source, output="a\ud800b")["scores"][0]["value"] == "'a\\ud800b'"
    assert evaluate(source, output=10**40)["scores"][0]["value"] == str(10**40)
    assert evaluate(source, output="line\u2028\r\nend")["scores"][0]["value"] == r"'line\u2028\r\nend'"
    for levels, part in ((190, "scores"), (400, "error")):
        deep: Any = []
        for _ in range(levels):
            deep = [deep]
        answer = evaluate(source, output=deep)
        assert part in answer
    assert answer["error"]["code"] == "USER_CODE_ERROR"
    missing = "def evaluate(ctx):\n    return {'scores': [Score(str(ctx.observation.tool_calls), 'r')]}"
    assert evaluate(missing, toolCalls=None)["scores"][0]["value"] == "[]"


@pytest.mark.slow
def test_a_hang_is_a_timeout_before_langfuse_gives_up(evaluate: Evaluate) -> None:
    began = time.monotonic()
    answer = evaluate("import time\ndef evaluate(ctx):\n    time.sleep(60)")
    assert answer == {"error": {"code": "TIMEOUT", "message": "`evaluate` took longer than 5 s"}}
    assert time.monotonic() - began < 10


def test_a_client_that_leaves_ends_its_evaluation(service: Service, evaluate: Evaluate) -> None:
    body = evaluation("import time\ndef evaluate(ctx):\n    time.sleep(4)", project="leaves")
    bearer = {"Authorization": f"Bearer {LANGFUSE_SECRET}"}
    for _ in range(3):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{service.url}/langfuse/v1/execute", json=body, headers=bearer, timeout=0.3)
    began = time.monotonic()
    assert evaluate(ONE, project="leaves") == {"scores": [{"name": "one", "value": 1}]}
    assert time.monotonic() - began < 3


def test_nothing_is_kept_between_observations_and_projects(evaluate: Evaluate) -> None:
    source = (
        "import os\nseen = []\ndef evaluate(ctx):\n    seen.append(1)\n"
        "    there = os.path.exists('/tmp/seen')\n    open('/tmp/seen', 'w').close()\n"
        "    return {'scores': [Score(len(seen) + 10 * there, 'seen')]}"
    )
    answers = [evaluate(source, project=project)["scores"][0]["value"] for project in ("a", "a", "b", "a")]
    assert answers == [1, 1, 1, 1]


def test_evaluators_of_many_projects_at_once(evaluate: Evaluate) -> None:
    source = "import time\ndef evaluate(ctx):\n    time.sleep(0.05)\n"
    source += "    return {'scores': [Score(ctx.observation.output, 'o')]}"
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(evaluate, source, project=f"p{n % 4}", output=str(n)) for n in range(40)]
        assert [one.result()["scores"][0]["value"] for one in asked] == [str(n) for n in range(40)]


def test_refusals_have_names_that_langfuse_knows(service: Service, functions: Any) -> None:
    wrong = lambda_client(f"{service.url}/langfuse/v1", secret="another-secret-of-this-length")
    with pytest.raises(wrong.exceptions.ClientError, match=r"AccessDeniedException.*GRADEBOX_LANGFUSE_SECRET"):
        wrong.invoke(FunctionName=PYTHON_FUNCTION, Payload=json.dumps(evaluation()))
    payloads: list[Any] = [[], {}, {"observation": None}, {"observations": [{"output": "Paris"}]}]
    evaluations = [json.dumps(evaluation() | {"payload": payload}).encode() for payload in payloads]
    for body in (b"{", b'{"scope": {}}', *evaluations):
        with pytest.raises(functions.exceptions.InvalidParameterValueException):
            functions.invoke(FunctionName=PYTHON_FUNCTION, Payload=body)
    with pytest.raises(functions.exceptions.InvalidParameterValueException, match="RequestResponse"):
        functions.invoke(FunctionName=PYTHON_FUNCTION, InvocationType="Event", Payload=json.dumps(evaluation()))
    for misplaced in ("", "/langfuse"):
        elsewhere = lambda_client(service.url + misplaced)
        with pytest.raises(elsewhere.exceptions.ResourceNotFoundException, match="must end in /langfuse/v1"):
            elsewhere.invoke(FunctionName=PYTHON_FUNCTION, Payload=json.dumps(evaluation()))
    with pytest.raises(functions.exceptions.RequestTooLargeException):
        functions.invoke(FunctionName=PYTHON_FUNCTION, Payload=json.dumps(evaluation(output="x" * 7_000_000)))


def test_bodies_of_strangers_are_not_read_and_do_not_keep_langfuse_out(service: Service, evaluate: Evaluate) -> None:
    """Uploads that together exceed the memory for clients without a key begin and never end."""
    host, port = service.url.removeprefix("http://").split(":")
    head = "POST /langfuse/v1/{} HTTP/1.1\r\nHost: h\r\nContent-Length: 6000000\r\n\r\n"
    with ExitStack() as connections:
        for number in range(50):
            connection = connections.enter_context(socket.create_connection((host, int(port))))
            connection.settimeout(0.5)
            path = "execute" if number % 2 else "2015-03-31/functions/f/invocations"
            with suppress(OSError):
                connection.sendall(head.format(path).encode() + b" " * 5_900_000)
        bearer = {"Authorization": f"Bearer {LANGFUSE_SECRET}"}
        body = evaluation(output="x" * 2_000_000)
        assert "scores" in httpx.post(f"{service.url}/langfuse/v1/execute", json=body, headers=bearer, timeout=8).json()


def test_a_body_is_the_one_whose_hash_is_signed(service: Service) -> None:
    """As in the SDK for JavaScript, the hash is in a header. The body is read after the check of the signature."""
    url = f"{service.url}/langfuse/v1/2015-03-31/functions/f/invocations"
    body = json.dumps(evaluation()).encode()
    digest = sha256(body).hexdigest()
    request = AWSRequest(method="POST", url=url, data=body, headers={"X-Amz-Content-SHA256": digest})
    SigV4Auth(Credentials("any", LANGFUSE_SECRET), "lambda", "eu-central-1").add_auth(request)
    headers = dict(request.headers.items())
    assert "scores" in httpx.post(url, content=body, headers=headers).json()
    for content, name in ((body + b" ", digest), (body, sha256(b"").hexdigest())):
        refused = httpx.post(url, content=content, headers={**headers, "X-Amz-Content-SHA256": name})
        assert refused.headers["x-amzn-errortype"] == "AccessDeniedException"


def test_an_endpoint_that_ends_in_a_slash(service: Service) -> None:
    functions = lambda_client(f"{service.url}/langfuse/v1/")
    answer = functions.invoke(FunctionName="of any name", Payload=json.dumps(evaluation()))
    assert "scores" in json.loads(answer["Payload"].read())


def test_metrics_count_evaluations_by_their_code(service: Service, evaluate: Evaluate) -> None:
    evaluate(ONE)
    evaluate("def evaluate(ctx):\n    return 1 / 0")
    told = httpx.get(f"{service.url}/metrics").text
    for outcome in ("scored", "USER_CODE_ERROR"):
        labels = f'{{grader="evaluate",outcome="{outcome}",project="(langfuse)"}}'
        assert f"gradebox_completions_total{labels}" in told
