from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from api.access.callers import Caller, WaitingClient
from api.dialects.openai import model_graders, similarity_measures
from api.dialects.openai import similarity as measuring
from api.dialects.openai.graders import LabelModel
from api.dialects.openai.problems import OpenAIProblem
from api.http.problems import problem_of
from gradebox.schemas import Limits
from sandbox import limits
from sandbox.errors import InfrastructureError
from tests.api.dialects.openai.conftest import asking, check, multi, python, refused, similar
from tests.gradebox.conftest import Service

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI
    from openai.resources.fine_tuning.alpha import Graders

pytestmark = pytest.mark.service

_LIMITS = Limits(**dict.fromkeys(Limits.model_fields, 100))
_CALLER = Caller(WaitingClient(), "default", _LIMITS, 60.0)
AB: dict[str, Any] = {"labels": ["a", "b"], "passing_labels": ["a"]}
TEMPLATES: dict[str, Any] = {"labels": ["a", "{{item.a}}"], "passing_labels": ["{{item.a}}"]}
MISSPELT = {"type": "text_similarity", "input": "", "reference": "", "evaluation_metrics": "bleu"}
IMAGE = {"type": "input_image", "image_url": "https://example.org/a.png"}


def refusal(graders: Graders, grader: Any) -> APIStatusError:
    """The refusal of a grader, the same from both methods."""
    with refused() as validating:
        graders.validate(grader=grader)
    with refused() as running:
        graders.run(grader=grader, model_sample="4", item={"answer": "4"})
    assert validating.value.message == running.value.message
    assert validating.value.type == "invalid_request_error"
    return validating.value


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1", "there is no function `grade`"),
        ("grade = 1", "there is no function `grade`"),
        ("def grade(sample):\n    return 1", "two arguments, the sample and the item: too many"),
        ("def grade(a, b, c):\n    return 1", "two arguments, the sample and the item: missing"),
        ("def grade(sample, item)\n    return 1", "check 'syntax' failed (line 1): SyntaxError: expected ':'"),
        ("def grade(sample, item):\n    return 1\nx = 'abc", "(line 3): SyntaxError: unterminated string"),
        ('def grade(sample, item):\n    return 1\nx = """abc', "(line 3): SyntaxError: unterminated triple-quoted"),
        ("def grade(sample, item):\n    return 1\nx = (1,", "(line 3): SyntaxError: '(' was never closed"),
        ("def grade(sample, item):\n    return 1\n@late", "failed: SyntaxError: invalid syntax"),
        ("def grade(sample, item): return 1\nif True:", "expected an indented block after 'if' statement on line 2"),
        ("import numpy\ndef grade(sample, item): return 1", "(line 1): the module body raised ModuleNotFoundError"),
        ("def grade(sample, item):\n    return 1\n#" + "x" * 65_000, "at most 65536"),
        ("def grade(sample, item):\n    return 1\0", "null byte"),
        ("raise SystemExit", "check 'execution' failed (line 1): the module body raised SystemExit"),
    ],
)
def test_sources_that_cannot_be_loaded(graders: Graders, source: str, said: str) -> None:
    error = refusal(graders, python(source))
    assert said in error.message and error.param == "grader.source"


@pytest.mark.parametrize(
    "source",
    [
        "def grade(sample, item):\n    return 7",
        "def grade(sample, item):\n    return 7\n\n# end",
        "def grade(sample, item):\n    return 7\nx = 1 \\",
        "\ufeffdef grade(sample, item):\r\n    return 7\r\n",
        "\n    import math\n    def grade(sample, item):\n        return math.floor(7.5)\n",
        "from __future__ import annotations\nasync def grade(sample: dict, item: dict, more=0) -> int:\n    return 7",
        "class Grade:\n    def __call__(self, sample, item):\n        return 7\ngrade = Grade()",
        "json = text = score = 0\ndef grade(sample, item):\n    return 7 + json + text + score",
    ],
)
def test_sources_as_people_send_them(graders: Graders, source: str) -> None:
    assert graders.run(grader=python(source, image_tag="2025-05-08"), model_sample="").reward == 7.0


@pytest.mark.parametrize(
    ("grader", "said", "param"),
    [
        ({"type": "score_model", "model": "m"}, "missing required field `input`", "grader"),
        (asking("score_model", input=[]), "length >= 1", "grader"),
        (asking("score_model", range=[1, 1]), "contains no numbers", "grader.range"),
        (asking("score_model", sampling_params={"top_p": 0.5}), "cannot be sent", "grader.sampling_params.top_p"),
        (asking("score_model", sampling_params={"n": 2}), "unknown field `n`", "grader"),
        (asking("score_model", input=[{"role": "user", "content": "{{x}}"}]), "{{x}}, which is no", "grader.input[0]"),
        (asking("score_model", input=[{"role": "user", "content": [IMAGE]}]), "is not text", "grader.input[0]"),
        (asking("label_model", labels=["a"], passing_labels=["a"]), "two different", "grader.labels"),
        (asking("label_model", **TEMPLATES), "the label '{{item.a}}' looks like a template", "grader.labels"),
        (asking("label_model", labels=["a", "b"], passing_labels=["c"]), "at least one of", "grader.passing_labels"),
        (asking("label_model", labels=["a", "b"], passing_labels=[]), "at least one of", "grader.passing_labels"),
        (asking("label_model", **AB, sampling_params={"top_p": 0.5}), "cannot be sent", "grader.sampling_params.top_p"),
        (similar("cosine"), "cosine compares embeddings", "grader.evaluation_metric"),
        (similar("levenshtein"), "one of fuzzy_match, bleu", "grader.evaluation_metric"),
        (check("neq"), "operation is one of eq, ne, like, ilike", "grader.operation"),
        (check(input="{{ output_text }}"), "grader.input has {{ output_text }}, which is no", "grader.input"),
        (check(reference="{{{item.a}}}"), "grader.reference has {{{item.a}}}, which is no", "grader.reference"),
        (similar("bleu", input="{% if item.a %}1{% endif %}"), "has {% if item.a %}, which", "grader.input"),
        (multi("a", a=check(input="{{item.x")), "has {{item.x, which", "grader.graders.a.input"),
        (asking("score_model", rnage=[1, 5]), "unknown member 'rnage': did you mean 'range'?", "grader.rnage"),
        (MISSPELT, "'evaluation_metrics': did you mean 'evaluation_metric'?", "grader.evaluation_metrics"),
        (check() | {"tolerance": 1}, "'tolerance': this type of grader has input, reference", "grader.tolerance"),
        (multi("a", a=check() | {"operaton": "ne"}), "did you mean 'operation'?", "grader.graders.a.operaton"),
        (multi("a", a=check()) | {"invalid_grade": 0.0}, "unknown member 'invalid_grade'", "grader.invalid_grade"),
        (asking("label_model", input=[{"role": "user", "content": "", "contents": "x"}]), "`contents`", "grader"),
        ({"type": "string_check", "operation": "eq", "input": 1, "reference": ""}, "`$.input`", "grader"),
        ({"type": "regex"}, "string_check, text_similarity, python, score_model, label_model, multi", "grader.type"),
        ({}, "string_check, text_similarity, python, score_model, label_model, multi", "grader.type"),
        (multi("a", a=multi("b", b=check())), "a multi cannot hold a multi", "grader.graders.a.type"),
        (multi("a", a={"type": "score_model"}), "missing required field", "grader.graders.a"),
        (multi("1"), "0 graders", "grader.graders"),
        (multi("g0", **{f"g{n}": check() for n in range(17)}), "17 graders", "grader.graders"),
        (multi("a + b", a=check()), "cannot use b", "grader.calculate_output"),
        ({"type": "multi", "graders": [check(), check()], "calculate_output": "1"}, "same name", "grader.graders"),
    ],
)
def test_graders_that_cannot_be_run(graders: Graders, grader: Any, said: str, param: str) -> None:
    error = refusal(graders, grader)
    assert said in error.message and error.param == param


OF_EVALS = {"id": "check-c4fdf789", "pass_threshold": 0.5}
TURN = {"type": "message", "role": "user", "content": {"type": "input_text", "text": "{{sample.output_text}}"}}
UNSET = dict.fromkeys(("seed", "temperature", "top_p", "max_completions_tokens", "reasoning_effort"))


@pytest.mark.parametrize(
    "grader",
    [
        *(check() | OF_EVALS, similar("bleu") | OF_EVALS, multi("a", a=check()) | OF_EVALS),
        *(check() | {"pass_threshold": None, "image_tag": None, "range": None}, python(image_tag="2025-05-08")),
        asking("score_model", input=[TURN], range=None, sampling_params=None),
        asking("score_model", sampling_params=UNSET, range=[0, 1]),
        *(asking("label_model", **AB), asking("label_model", **AB, sampling_params=UNSET)),
    ],
)
@pytest.mark.usefixtures("model_server")
def test_validate_gives_the_grader_back(graders: Graders, grader: Any) -> None:
    validated = graders.with_raw_response.validate
    assert validated(grader=grader).http_response.json() == {"grader": grader}
    del grader["name"]
    assert validated(grader=grader).http_response.json() == {"grader": grader | {"name": ""}}


@pytest.mark.parametrize(("limit", "timeout_s"), [(2, 2), (100, 5)])
def test_a_model_grader_has_no_more_time_than_the_project(limit: int, timeout_s: int) -> None:
    limits = _LIMITS.model_copy(update={"timeout_s": limit})
    caller = Caller(WaitingClient(), "default", limits, 60.0)
    source = model_graders._source_of(caller, LabelModel("judge", [], ["a"], ["a"]), "grader")
    assert source.timeout_s == timeout_s


def test_texts_that_take_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "CPU_S", 1)
    letters = Random(1).choices("abcdefghijklmnopqrstuvwxyz ", k=85_000)
    text, reference = "".join(letters[:64_000]), "".join(letters[64_000:])
    started = time.monotonic()
    with pytest.raises(OpenAIProblem, match=r"takes more than 1 s"):
        measuring.similarity(_CALLER, "fuzzy_match", text, reference, "grader")
    assert time.monotonic() - started < 10


def test_a_busy_machine_is_not_the_fault_of_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_TIME_S", 0.01)
    with pytest.raises(InfrastructureError, match=r"did not end within 0.01 s") as raised:
        measuring.similarity(_CALLER, "fuzzy_match", "a", "b", "grader")
    assert problem_of(raised.value).status == 503


def test_similarities_of_one_project_leave_room_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_: object, **__: object) -> SimpleNamespace:
        time.sleep(0.5)
        return SimpleNamespace(returncode=0, stdout=b"1.0")

    monkeypatch.setattr("subprocess.run", measured)
    client = WaitingClient()
    one, other = Caller(client, "one", _LIMITS, 60.0), Caller(WaitingClient(), "other", _LIMITS, 60.0)
    with ThreadPoolExecutor(12) as threads:
        of_one = [threads.submit(measuring.similarity, one, "bleu", "a", "b", "grader") for _ in range(12)]
        time.sleep(0.1)
        began = time.monotonic()
        assert measuring.similarity(other, "bleu", "a", "b", "grader") == 1.0
        assert time.monotonic() - began < 0.9
        client.leave()  # those that wait are not measured
        assert sum(done.exception() is not None for done in of_one) >= 8
    assert time.monotonic() - began < 2.0
    assert not measuring._AT_ONCE.held


def test_measures_do_not_load_scipy() -> None:
    """NLTK imports scipy if it can, which takes three quarters of a second for each score."""
    job = json.dumps(["rouge_l", "a b", "a c"]).encode()
    command = [sys.executable, "-X", "importtime", "-P", similarity_measures.__file__, "10"]
    done = subprocess.run(command, input=job, capture_output=True, check=True)
    assert float(done.stdout) == 0.5
    assert b"rouge_score" in done.stderr
    assert b"scipy.special" not in done.stderr


def test_texts_that_take_too_much_memory_are_refused_and_hold_nobody_up(graders: Graders, service: Service) -> None:
    with refused(r"more than 1 GiB|more than 10 s"):
        graders.run(grader=similar("rouge_l"), model_sample="a b " * 50_000, item={"answer": "b c " * 50_000})
    assert httpx.get(f"{service.url}/healthz").status_code == 200


def test_a_template_cannot_be_blown_up(graders: Graders) -> None:
    grader = check(input="{{item.answer}}" * 2_000)
    with refused("longer than 1048576 characters"):
        graders.run(grader=grader, model_sample="", item={"answer": "x" * 100_000})


def test_samples_of_another_kind(client: OpenAI) -> None:
    graders: Any = client.fine_tuning.alpha.graders
    with refused("model_sample must be a string"):
        graders.run(grader=check(), model_sample=4)
    with refused("item must be an object"):
        graders.run(grader=check(), model_sample="4", item=["4"])


def test_requests_with_unknown_members(graders: Graders) -> None:
    with refused("unknown field `items`"):
        graders.run(grader=python(), model_sample="4", extra_body={"items": {"answer": "4"}})
    with refused(r"item=\{'reference_answer': …\}"):
        graders.run(grader=python(), model_sample="4", extra_body={"reference_answer": "4"})
    graders.validate(grader=python(), extra_body={"item": {"answer": "4"}})  # the body of a run will do


def test_an_item_that_no_sandbox_takes(graders: Graders) -> None:
    item: dict[str, Any] = {}
    for _ in range(limits.LINE_DEPTH):
        item = {"deeper": item}
    with refused(f"more than {limits.LINE_DEPTH} levels deep"):
        graders.run(grader=python(), model_sample="4", item=item)
    with refused("longer than 4194304 bytes", "APIStatusError") as long:
        graders.run(grader=python(), model_sample="4" * 5_000_000)
    assert long.value.status_code == 413


def test_keys_projects_and_paths(service: Service, client: OpenAI) -> None:
    with refused(error="AuthenticationError") as unknown:
        client.with_options(api_key="nope").fine_tuning.alpha.graders.validate(grader=python())
    assert unknown.value.code == "invalid_api_key"
    elsewhere = client.with_options(project="nowhere").fine_tuning.alpha.graders
    with refused("no project 'nowhere'", "NotFoundError"):
        elsewhere.validate(grader=python())
    with refused("there is no 'models' here", "NotFoundError"):
        client.models.list()
    reader = service.client().keys.create("reader", ["default"], role="read").secret
    with refused("role 'score'", "PermissionDeniedError"):
        client.with_options(api_key=reader or "").fine_tuning.alpha.graders.validate(grader=python())


def test_a_project_that_the_key_covers(service: Service, client: OpenAI, project: str) -> None:
    secret = service.client().keys.create("one", [project]).secret or ""
    graders = client.with_options(api_key=secret, project=project).fine_tuning.alpha.graders
    assert graders.run(grader=check(), model_sample="4", item={"answer": "4"}).reward == 1.0
    with refused(error="NotFoundError"):
        client.with_options(api_key=secret).fine_tuning.alpha.graders.validate(grader=check())


def test_bodies_that_are_no_requests(service: Service) -> None:
    url = f"{service.url}/openai/v1/fine_tuning/alpha/graders/run"
    with httpx.Client(headers={"Authorization": f"Bearer {service.key}", "Content-Type": "application/json"}) as client:
        for body in (b"{", b"[]", b'{"grader": 1, "model_sample": ""}', b"[" * 9999):
            answer = client.post(url, content=body)
            assert answer.status_code == 400 and set(answer.json()["error"]) == {"message", "type", "param", "code"}
        half = b'{"grader": {"type": "string_check", "input": "\\ud800"}, "model_sample": ""}'
        assert client.post(url, content=half).status_code == 400
        large = b'{"grader": {}, "model_sample": "' + b"x" * (17 << 20) + b'"}'
        assert client.post(url, content=large).status_code == 413


@pytest.mark.parametrize("base", ["", "/v1", "/openai"])
def test_a_wrong_base_url_is_told_the_right_one(service: Service, client: OpenAI, base: str) -> None:
    wrong = client.with_options(base_url=service.url + base).fine_tuning.alpha.graders
    with refused("did you mean the base URL …/openai/v1", "NotFoundError"):
        wrong.run(grader=check(), model_sample="4")
