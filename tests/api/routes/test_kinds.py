"""Graders of a kind over HTTP, with both clients and on the command line: the service writes their source."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from examples.model_server import ModelServer, Script
from gradebox import AsyncClient, Client
from gradebox.cli import app
from gradebox.judges.source import source_of
from models.answering import asker_of
from models.settings import ModelSettings
from storage.grader_content import CONFIG_BYTES, Declared
from tests.api.conftest import GOOD, PROJECT, Service, problem

pytestmark = pytest.mark.sandbox
URL = f"{PROJECT}/graders"
CONFIG: dict[str, Any] = {
    "criteria": "The answer is polite",
    "model": "small-judge",
    "temperature": None,
    "examples": [],
}


@pytest.fixture(autouse=True)
def server(service: Service, client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """The project's model and endpoint, on this machine: the model answers with what fits first, PASS."""
    settings = ModelSettings(model_hosts=("*",), model_private="on")
    asker = asker_of(service.store, settings, service.services.pool)
    monkeypatch.setattr(service.services, "models", settings)
    monkeypatch.setattr(service.services, "asker", asker)
    with ModelServer(Script(reward=0.25, reply='{"reasoning": "so it is", "score": "PASS"}')) as server:
        model = {"key": "small-judge", "base_url": server.base_url, "model": "m"}
        assert client.post(f"{PROJECT}/models", json=model).status_code == 201
        endpoint = {"key": "my-reward", "url": server.base_url}
        assert client.post(f"{PROJECT}/endpoints", json=endpoint).status_code == 201
        yield server
    asker.close()


@pytest.fixture
def ours(service: Service, secret: str) -> Iterator[Client]:
    with Client(service.url, secret) as client:
        yield client


def scored(client: httpx.Client, key: str) -> dict[str, Any]:
    threads = [{"prompt": "What is 2+2?", "completion": "4"}]
    (outcome,) = client.post(f"{URL}/{key}/score", json={"threads": threads}).json()["outcomes"]
    return {name: outcome.get(name) for name in ("score", "details")}


def test_a_kind_is_kept_with_its_config_and_a_source_that_is_written(client: httpx.Client) -> None:
    made = client.post(URL, json={"key": "polite", "name": "Polite", "kind": "binary_judge", "config": CONFIG})
    assert made.status_code == 201, made.text
    assert (made.json()["kind"], made.json()["isolation"], made.json()["name"]) == (
        "binary_judge",
        "completion",
        "Polite",
    )
    version = client.get(f"{URL}/polite/versions/1").json()
    assert (version["kind"], version["config"]) == ("binary_judge", CONFIG)
    assert version["source"] == source_of("binary_judge", CONFIG)
    assert scored(client, "polite") == {"score": 1.0, "details": {"verdict": "PASS"}}
    client.post(URL, json={"key": "far", "kind": "external", "config": {"endpoint": "my-reward"}})
    assert scored(client, "far")["score"] == 0.25


def test_a_version_follows_only_where_something_changes(client: httpx.Client) -> None:
    body = {"kind": "binary_judge", "config": CONFIG}
    client.post(URL, json={"key": "polite", **body})
    assert client.put(f"{URL}/polite", json=body).json()["version"] == 1
    other = body | {"config": CONFIG | {"criteria": "The answer is short"}}
    assert client.put(f"{URL}/polite", json=other).json()["version"] == 2
    edited = client.put(f"{URL}/polite", json={"source": GOOD}).json()
    assert (edited["version"], edited["kind"]) == (3, "function")
    assert client.get(f"{URL}/polite/versions/3").json()["config"] is None
    external = client.put(f"{URL}/polite", json={"kind": "external", "config": {"endpoint": "my-reward"}}).json()
    assert (external["version"], external["kind"]) == (4, "external")


def test_what_is_written_is_proved_like_any_other(client: httpx.Client) -> None:
    broken = {"key": "polite", "kind": "binary_judge", "config": CONFIG | {"user_template": "{{#if x}}"}}
    report = problem(client.post(URL, json=broken), 422, "validation-failed")
    assert "user_template is no template" in report
    lacks = broken | {"config": CONFIG | {"model": "other"}}
    assert "'other'" in problem(client.post(URL, json=lacks), 422, "validation-failed")
    long = broken | {"config": CONFIG | {"criteria": "x" * 65_536}}
    assert "65536" in problem(client.post(URL, json=long), 422, "validation-failed").replace(",", "")
    assert client.get(URL).json() == []
    tried = client.post(f"{PROJECT}/validate", json={"kind": "binary_judge", "config": CONFIG}).json()
    assert (tried["valid"], tried["asks"]) == (True, ["model:small-judge"])


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"kind": "binary_judge"}, "config.criteria is missing"),
        ({"kind": "binary_judge", "config": CONFIG | {"model": ""}}, "config.model is missing"),
        ({"kind": "binary_judge", "config": CONFIG | {"url": "x"}}, "the member 'url'"),
        ({"kind": "binary_judge", "config": [1]}, "`config` must be an object"),
        ({"kind": "binary_judge", "config": CONFIG, "source": GOOD}, "a source and a kind"),
        ({"kind": "jury", "config": CONFIG}, "kind"),
        ({"kind": "judge", "config": CONFIG}, "config has the member 'criteria'"),
        ({"config": CONFIG, "source": GOOD}, "`kind` and `config` belong together"),
        ({}, "there is no source"),
        ({"kind": "binary_judge", "config": CONFIG | {"criteria": "x" * CONFIG_BYTES}}, "shorten it"),
        ({"kind": "external", "config": {"endpoint": "e", "criteria": None}}, "the member 'criteria'"),
    ],
)
def test_a_config_that_is_none_is_refused_with_its_reason(
    client: httpx.Client, body: dict[str, Any], told: str
) -> None:
    assert told in problem(client.post(URL, json={"key": "polite", **body}), 422, "invalid-request")


def test_a_source_file_has_no_kind(client: httpx.Client) -> None:
    headers = {"Content-Type": "text/x-python"}
    refused = client.post(f"{URL}?key=a&kind=external", content=GOOD, headers=headers)
    assert "'kind'" in problem(refused, 422, "invalid-request")
    form = client.post(URL, files={"file": ("g.py", GOOD)}, data={"key": "b", "kind": "external"})
    assert "belong together" in problem(form, 422, "invalid-request")


def test_a_config_may_nest_so_deep(client: httpx.Client) -> None:
    deep = "[" * 5000 + "]" * 5000
    body = f'{{"key": "a", "kind": "binary_judge", "config": {{"criteria": "c", "model": "m", "examples": {deep}}}}}'
    refused = client.post(URL, content=body, headers={"Content-Type": "application/json"})
    assert "nest" in problem(refused, 422, "invalid-request") or "recursion" in refused.text


def test_a_judge_that_was_only_kept_runs_once_it_is_updated(service: Service, client: httpx.Client) -> None:
    service.store.graders.create("default", "kind", "Kind", "", Declared("judge", {"criteria": "is kind"}))
    service.store.graders.create("default", "far", "Far", "", Declared("external", {"url": "http://far.example/"}))
    score = {"threads": [{"completion": "x"}]}
    for key, told in (("kind", "kind 'binary_judge'"), ("far", "key of an endpoint")):
        assert told in problem(client.post(f"{URL}/{key}/score", json=score), 409, "not-runnable")
    assert client.put(f"{URL}/kind", json={"kind": "binary_judge", "config": CONFIG}).json()["kind"] == "binary_judge"
    far = client.put(f"{URL}/far", json={"kind": "external", "config": {"endpoint": "my-reward"}}).json()
    assert (far["version"], far["kind"]) == (2, "external")


def test_both_clients_make_kinds(service: Service, secret: str, ours: Client) -> None:
    made = ours.graders.create.binary_judge(
        key="polite",
        criteria="The answer is polite",
        judge_model="small-judge",
        examples=[{"input": [{"role": "user", "content": "Why?"}], "output": "Go away.", "passes": False}],
        template_variables={"tone": "warm"},
        timeout_s=3,
    )
    assert (made.key, made.kind, made.timeout_s) == ("polite", "binary_judge", 3)
    (version,) = made.versions()
    assert version.config is not None
    assert version.config["template_variables"] == {"tone": "warm"}
    assert "from gradebox.judges import BinaryJudge\n" in version.source
    edited = made.update(version.source.replace("polite", "brief"))
    assert (edited.version, edited.kind) == (2, "function")

    async def external() -> Any:
        async with AsyncClient(service.url, secret) as client:
            return await client.graders.create.external(
                key="far", endpoint="my-reward", threads=[{"prompt": "p", "completion": "c"}]
            )

    far = asyncio.run(external())
    assert (far.kind, far.test_threads) == ("external", 1)


def test_every_kind_of_judge_is_made_over_http_and_by_the_client(client: httpx.Client, ours: Client) -> None:
    configs: dict[str, dict[str, Any]] = {
        "judge": {"criterion": "conciseness", "judge_model": "small-judge", "check_positional_bias": True},
        "faithfulness": {"model": "small-judge", "documents": "metadata.found"},
        "context_relevancy": {"model": "small-judge"},
        "answer_relevancy": {"model": "small-judge", "temperature": None},
    }
    threads = [{"prompt": "q", "completion": "c", "metadata": {"found": ["d"], "documents": ["d"]}}]
    for kind, config in configs.items():
        body = {"key": kind, "kind": kind, "config": config, "ask": "stand-in", "threads": threads}
        made = client.post(URL, json=body)
        assert made.status_code == 201, made.text
        assert made.json()["kind"] == kind
        version = client.get(f"{URL}/{kind}/versions/1").json()
        assert version["source"] == source_of(kind, config)
        create = getattr(ours.graders.create, kind)
        given = {"judge_model" if name == "model" else name: value for name, value in config.items()}
        again = create(key=f"{kind}-2", ask="stand-in", threads=threads, **given)
        assert (again.kind, again.version) == (kind, 1)
    edited = client.put(f"{URL}/judge", json={"source": GOOD}).json()
    assert (edited["version"], edited["kind"]) == (2, "function")


def test_the_command_line_makes_kinds(service: Service, secret: str, tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["graders", *arguments, "--url", service.url, "--api-key", secret])

    judge = ("--kind", "binary_judge", "--criteria", "The answer is polite", "--model", "small-judge")
    assert run("create", "polite", *judge).stdout == "created polite@1 (isolation: completion)\n"
    assert "BinaryJudge" in run("show", "polite", "--source").stdout
    assert "polite@1  (binary_judge)" in run("show", "polite").stdout
    assert run("create", "far", "--kind", "external", "--endpoint", "my-reward").exit_code == 0
    for kind in ("faithfulness", "context_relevancy", "answer_relevancy"):
        made = run("create", kind, "--kind", kind, "--model", "small-judge", "--ask", "stand-in")
        assert made.stdout == f"created {kind}@1 (isolation: completion)\n", made.output
    quick = ("--kind", "judge", "--criteria", "Is it short?", "--model", "small-judge", "--ask", "stand-in")
    assert run("create", "short", *quick).stdout == "created short@1 (isolation: completion)\n"
    assert 'criterion="Is it short?"' in run("show", "short", "--source").stdout
    (tmp_path / "judge.json").write_text(json.dumps(CONFIG))
    config = ("--config", str(tmp_path / "judge.json"))
    assert run("create", "brief", "--kind", "binary_judge", *config, "--criteria", "It is brief").exit_code == 0
    assert 'criteria="It is brief"' in run("show", "brief", "--source").stdout
    exported = run("export", "brief").stdout
    assert "BinaryJudge" in json.loads(exported)["versions"][0]["source"]
    for wrong in (["x"], ["x", "--criteria", "c"], ["x", "--kind", "external", "--criteria", "c"]):
        assert run("create", *wrong).exit_code == 2, wrong
