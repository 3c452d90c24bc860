"""Tests of graders of a kind, whose source the service writes: over HTTP, with both clients and the command line."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis
from typer.testing import CliRunner

from api.intake.source_upload import CONFIG_BYTES
from examples.model_server import ModelServer, Script
from gradebox import AsyncClient, Client
from gradebox.cli import app
from gradebox.errors import GraderWarning
from gradebox.judges.kind_source import source_of
from models.scoring import scoring
from sandbox.pool.pool import Pool
from storage import redis_keys
from tests.api.conftest import GOOD, PROJECT, Service, answer_of, create, finished, problem

pytestmark = pytest.mark.sandbox
URL = f"{PROJECT}/graders"
CONFIG: dict[str, Any] = {"criteria": "It is polite", "judge_model": "small-judge", "temperature": None, "examples": []}


@pytest.fixture(autouse=True)
def server(client: httpx.Client, here: None) -> Iterator[ModelServer]:
    """A server for the project's model and endpoint. The model answers with the first valid value, PASS."""
    with ModelServer(Script(reward=0.25, reply='{"reasoning": "so it is", "score": "PASS"}')) as server:
        model = {"key": "small-judge", "base_url": server.base_url, "model": "m"}
        assert client.post(f"{PROJECT}/models", json=model).status_code == 201
        endpoint = {"key": "my-reward", "url": server.base_url}
        assert client.post(f"{PROJECT}/endpoints", json=endpoint).status_code == 201
        yield server


@pytest.fixture
def ours(service: Service, secret: str) -> Iterator[Client]:
    with Client(service.url, secret) as client:
        yield client


@pytest.fixture
def run(service: Service, secret: str) -> Callable[..., Any]:
    """Runs a command of `gradebox graders`."""
    access = ["--url", service.url, "--api-key", secret]
    return lambda *arguments: CliRunner().invoke(app, ["graders", *arguments, *access])


def scored(client: httpx.Client, key: str) -> dict[str, Any]:
    threads = [{"prompt": "What is 2+2?", "completion": "4"}]
    (outcome,) = client.post(f"{URL}/{key}/score", json={"threads": threads}).json()["outcomes"]
    return {name: outcome.get(name) for name in ("score", "details")}


def test_a_budget_that_would_not_limit_a_batch_is_refused(client: httpx.Client) -> None:
    client.post(URL, json={"key": "polite", "kind": "binary_judge", "config": CONFIG}).raise_for_status()
    batch = {"graders": [{"key": "polite"}], "threads": [{"completion": "4"}]}
    batches = f"{PROJECT}/batches"

    def status(budget: dict[str, object]) -> int:
        return client.post(batches, json={**batch, "budget": budget}).status_code

    detail = problem(client.post(batches, json={**batch, "budget": {"usd": 1}}), 422, "invalid-request")
    assert detail.startswith("a budget in USD does not limit small-judge, which has no price: set `input_price`")
    query: dict[str, str | int] = {"grader": "polite", "budget_usd": 1}
    lines = {"Content-Type": "application/x-ndjson"}
    assert client.post(batches, params=query, content=b'{"completion": "4"}\n', headers=lines).status_code == 422
    nested = {"parts": {"polite": {"grader": "polite"}}}
    client.post(URL, json={"key": "nested", "kind": "combine", "config": nested}).raise_for_status()
    through = {**batch, "graders": [{"key": "nested"}], "budget": {"usd": 1}}
    assert "does not limit small-judge" in problem(client.post(batches, json=through), 422, "invalid-request")
    assert status({"tokens": 100}) == 202
    client.patch(f"{PROJECT}/models/small-judge", json={"input_price": 0, "output_price": 0}).raise_for_status()
    assert status({"usd": 1}) == 202


def test_a_kind_is_kept_with_its_config_and_a_source_that_is_written(client: httpx.Client) -> None:
    made = answer_of(
        client.post(URL, json={"key": "polite", "name": "Polite", "kind": "binary_judge", "config": CONFIG}), 201
    )
    assert (made["kind"], made["isolation"], made["name"]) == ("binary_judge", "batch", "Polite")
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
    kept = client.put(f"{URL}/polite", json={"kind": "function"})
    assert "there is no source" in problem(kept, 422, "invalid-request")
    edited = client.put(f"{URL}/polite", json={"kind": "function", "config": None, "source": GOOD}).json()
    assert (edited["version"], edited["kind"]) == (3, "function")
    assert "this source makes a function of it" in edited["warnings"][-1]
    assert client.get(f"{URL}/polite/versions/3").json()["config"] is None
    external = client.put(f"{URL}/polite", json={"kind": "external", "config": {"endpoint": "my-reward"}}).json()
    assert (external["version"], external["kind"]) == (4, "external")


def test_what_is_written_is_proved_like_any_other(client: httpx.Client) -> None:
    broken = {"key": "polite", "kind": "binary_judge", "config": CONFIG | {"user_template": "{{#if x}}"}}
    report = problem(client.post(URL, json=broken), 422, "validation-failed")
    assert "user_template is no template" in report
    lacks = broken | {"config": CONFIG | {"judge_model": "other"}}
    assert "'other'" in problem(client.post(URL, json=lacks), 422, "validation-failed")
    long = broken | {"config": CONFIG | {"criteria": "x" * 65_536}}
    assert "65536" in problem(client.post(URL, json=long), 422, "validation-failed").replace(",", "")
    checks = {"key": "four", "kind": "checks", "config": {"checks": [{"check": "matches", "pattern": "("}]}}
    said = problem(client.post(URL, json=checks), 422, "validation-failed")
    assert "checks[0]: matches(pattern=) takes a regular expression" in said
    assert client.get(URL).json() == []
    tried = client.post(f"{PROJECT}/validate", json={"kind": "binary_judge", "config": CONFIG}).json()
    assert (tried["valid"], tried["asks"]) == (True, ["model:small-judge"])


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"kind": "binary_judge"}, "config.criteria is missing"),
        ({"kind": "binary_judge", "config": CONFIG | {"judge_model": ""}}, "config.judge_model is missing"),
        ({"kind": "binary_judge", "config": CONFIG | {"url": "x"}}, "the member 'url'"),
        ({"kind": "binary_judge", "config": [1]}, "`config` must be an object"),
        ({"kind": "binary_judge", "config": CONFIG, "source": GOOD}, "a source and a kind"),
        ({"kind": "jury", "config": CONFIG}, "kind"),
        ({"kind": "judge", "config": CONFIG}, "config has the member 'criteria'"),
        ({"config": CONFIG, "source": GOOD}, "`kind` and `config` belong together"),
        ({"kind": "function", "config": CONFIG, "source": GOOD}, "`kind` and `config` belong together"),
        ({}, "there is no source"),
        ({"kind": "binary_judge", "config": CONFIG | {"criteria": "x" * CONFIG_BYTES}}, "shorten it"),
        ({"kind": "external", "config": {"endpoint": "e", "criteria": None}}, "the member 'criteria'"),
        ({"kind": "binary_judge", "config": CONFIG | {"criteria": "\ud83d"}}, "it holds half a surrogate pair"),
    ],
)
def test_a_config_that_is_none_is_refused_with_a_reason(client: httpx.Client, body: dict[str, Any], told: str) -> None:
    content = json.dumps({"key": "polite", **body})
    refused = client.post(URL, content=content, headers={"Content-Type": "application/json"})
    assert told in problem(refused, 422, "invalid-request")


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
    assert version.config is not None and version.config["template_variables"] == {"tone": "warm"}
    assert "from gradebox.judges import BinaryJudge\n" in version.source
    with pytest.warns(GraderWarning, match=r"polite@2: the grader was of kind 'binary_judge', .* stay with version 1"):
        edited = made.update(version.source.replace("polite", "brief"))
    assert (edited.version, edited.kind) == (2, "function")

    async def external() -> Any:
        async with AsyncClient(service.url, secret) as client:
            return await client.graders.create.external(
                key="far", endpoint="my-reward", threads=[{"prompt": "p", "completion": "c"}]
            )

    far = asyncio.run(external())
    assert (far.kind, far.test_threads) == ("external", 1)


def test_an_update_without_a_source_keeps_kind_and_settings(service: Service, secret: str, ours: Client) -> None:
    judge = ours.graders.create.of_kind(key="polite", kind="binary_judge", config=CONFIG)
    first = judge.versions()[0]
    assert ours.graders.update("polite", timeout_s=3).version == 2
    assert judge.update(memory_mb=300, name="Polite").version == 3
    assert ours.graders.update("polite", threads=[{"prompt": "p", "completion": "c"}]).test_threads == 1
    assert ours.graders.update("polite", ask="stand-in").version == 3
    assert ours.graders.update("polite", environment="").version == 3

    async def update() -> Any:
        async with AsyncClient(service.url, secret) as client:
            held = await client.graders.get("polite")
            return await held.update(isolation="completion")

    assert asyncio.run(update()).version == 4
    newest = judge.versions()[-1]
    assert (newest.kind, newest.config, newest.source) == (first.kind, first.config, first.source)
    assert (newest.timeout_s, newest.memory_mb, newest.isolation_asked) == (3, 300, "completion")
    changed = ours.graders.update("polite", kind="binary_judge", config=CONFIG | {"criteria": "It is brief"})
    assert (changed.version, changed.kind, changed.timeout_s) == (5, "binary_judge", 3)
    assert ours.graders.put("polite", kind="external", config={"endpoint": "my-reward"}).kind == "external"
    assert ours.graders.put("new", kind="external", config={"endpoint": "my-reward"}).version == 1
    wrong: dict[str, Any]
    for wrong in ({"fn": GOOD, "kind": "external", "config": {}}, {"kind": "external"}, {"config": {}}):
        with pytest.raises(TypeError, match="as a kind= with its config="):
            ours.graders.update("polite", **wrong)


def test_what_is_proved_with_other_settings_does_not_undo_a_version_of_meanwhile(
    service: Service, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client)
    graders = service.store.graders
    meanwhile = graders.threads

    def threads(project: str, key: str) -> list[bytes]:
        monkeypatch.setattr(graders, "threads", meanwhile)
        assert client.put(f"{URL}/exact", json={"source": f"# 2\n{GOOD}"}).json()["version"] == 2
        return meanwhile(project, key)

    monkeypatch.setattr(graders, "threads", threads)
    refused = problem(client.put(f"{URL}/exact", json={"timeout_s": 2}), 409, "conflict")
    assert "the source of grader 'exact' was changed by version 2 while this was proved" in refused
    assert client.put(f"{URL}/exact", json={"timeout_s": 2}).json()["version"] == 3
    assert client.get(f"{URL}/exact/versions/3").json()["source"].startswith("# 2")


@pytest.mark.filterwarnings("ignore:polite@7")
def test_graders_of_kinds_are_exported_and_imported_as_such(
    client: httpx.Client, ours: Client, run: Callable[..., Any], server: ModelServer, tmp_path: Path
) -> None:
    edited = f"# mine\n{GOOD}"
    create(client, "polite", edited)
    ours.graders.update("polite", kind="binary_judge", config=CONFIG, timeout_s=3)
    ours.graders.update("polite", kind="binary_judge", config=CONFIG | {"criteria": "It is brief"})
    ours.graders.create.external(key="far", endpoint="my-reward", name="Far")
    file = str(tmp_path / "graders.jsonl")
    assert run("export", "--all-versions", "-o", file).exit_code == 0
    there = {key: ours.graders.versions(key) for key in ("far", "polite")}
    asked = len(server.bodies)
    for key in there:
        ours.graders.delete(key)

    done = run("import", file)
    assert (done.exit_code, done.stdout.split()) == (0, ["far@2", "polite@6"]), done.output
    assert len(server.bodies) > asked  # proved like a new grader, so the model is asked
    for key, before in there.items():
        after = ours.graders.versions(key)
        assert [(one.kind, one.config, one.source, one.timeout_s) for one in after] == [
            (one.kind, one.config, one.source, one.timeout_s) for one in before
        ]
    assert scored(client, "polite") == {"score": 1.0, "details": {"verdict": "PASS"}}
    assert scored(client, "far")["score"] == 0.25
    assert run("import", file).exit_code == 1
    again = run("import", file, "--replace")
    assert (again.exit_code, ours.graders.get("polite").kind) == (0, "binary_judge"), again.output


def test_an_import_is_proved_with_stand_ins_where_it_is_said(
    client: httpx.Client, ours: Client, run: Callable[..., Any], tmp_path: Path
) -> None:
    ours.graders.create.of_kind(key="polite", kind="binary_judge", config=CONFIG)
    file = str(tmp_path / "graders.jsonl")
    run("export", "-o", file)
    ours.graders.delete("polite")
    assert client.delete(f"{PROJECT}/models/small-judge").status_code == 204
    assert "'small-judge'" in run("import", file).output
    assert run("import", file, "--ask", "stand-in").exit_code == 0
    assert ours.graders.versions("polite")[-1].proved_with_stand_ins


def test_the_command_line_updates_kinds(client: httpx.Client, ours: Client, run: Callable[..., Any]) -> None:
    ours.graders.create.of_kind(key="polite", kind="binary_judge", config=CONFIG)
    assert run("update", "polite", "--timeout-s", "3").stdout == "updated polite@2 (isolation: batch)\n"
    assert run("update", "polite", "--criteria", "It is brief").exit_code == 0
    newest = ours.graders.versions("polite")[-1]
    assert (newest.number, newest.kind, newest.config) == (3, "binary_judge", CONFIG | {"criteria": "It is brief"})
    create(client)
    assert run("update", "exact", "--criteria", "c").exit_code == 2
    assert run("update", "exact", "--kind", "external", "--endpoint", "my-reward").exit_code == 0
    assert ours.graders.get("exact").kind == "external"


def test_the_command_line_makes_kinds(run: Callable[..., Any], tmp_path: Path) -> None:
    judge = ("--kind", "binary_judge", "--criteria", "The answer is polite", "--model", "small-judge")
    assert run("create", "polite", *judge).stdout == "created polite@1 (isolation: batch)\n"
    assert "BinaryJudge" in run("show", "polite", "--source").stdout
    assert "polite@1  (binary_judge)" in run("show", "polite").stdout
    assert run("create", "far", "--kind", "external", "--endpoint", "my-reward").exit_code == 0
    (tmp_path / "judge.json").write_text(json.dumps(CONFIG))
    config = ("--config", str(tmp_path / "judge.json"))
    assert run("create", "brief", "--kind", "binary_judge", *config, "--criteria", "It is brief").exit_code == 0
    assert 'criteria="It is brief"' in run("show", "brief", "--source").stdout
    exported = run("export", "brief").stdout
    assert "BinaryJudge" in json.loads(exported)["versions"][0]["source"]
    for kind in ("faithfulness", "context_relevancy", "answer_relevancy"):
        made = run("create", kind, "--kind", kind, "--model", "small-judge", "--ask", "stand-in")
        assert made.stdout == f"created {kind}@1 (isolation: batch)\n", made.output
    quick = ("--kind", "judge", "--criteria", "Is it short?", "--model", "small-judge", "--ask", "stand-in")
    assert run("create", "short", *quick).stdout == "created short@1 (isolation: batch)\n"
    assert 'criterion="Is it short?"' in run("show", "short", "--source").stdout
    assert run("update", "short", "--criteria", "Is it brief?", "--ask", "stand-in").exit_code == 0
    assert 'criterion="Is it brief?"' in run("show", "short", "--source").stdout
    for wrong in (["x"], ["x", "--criteria", "c"], ["x", "--kind", "external", "--criteria", "c"]):
        assert run("create", *wrong).exit_code == 2, wrong
    (tmp_path / "judge.json").write_text(json.dumps({"criterion": "Is it short?", "judge_model": "m", "stepz": 2}))
    refused = run("create", "odd", "--kind", "judge", *config, "--model", "small-judge")
    assert refused.exit_code == 2
    assert "config has the member 'stepz', and a judge takes criterion, judge_model, steps" in refused.output


CHECKS: dict[str, Any] = {
    "checks": [
        {"check": "contains", "text": "4"},
        {"check": "fits_schema", "schema": {"type": "integer", "maximum": 3}},
        {"check": "not_called", "tool": "calculator"},
    ]
}


def test_checks_are_a_grader_over_http_and_by_the_client(client: httpx.Client, ours: Client) -> None:
    from gradebox.checks import contains, fits_schema, not_called, satisfies

    answer_of(client.post(URL, json={"key": "four", "kind": "checks", "config": CHECKS}), 201)
    result = scored(client, "four")
    assert result["score"] == 0.0
    assert [one["passed"] for one in result["details"]["checks"]] == [True, False, True]
    checks = [contains("4"), fits_schema({"type": "integer", "maximum": 3}), not_called("calculator")]
    grader = ours.graders.create.checks("four-too", checks)
    assert (grader.kind, grader.asks, grader.isolation) == ("checks", [], "batch")
    assert client.get(f"{URL}/four-too/versions/1").json()["config"] == CHECKS
    assert scored(client, "four-too") == result
    with pytest.raises(ValueError, match="write a function grader"):
        ours.graders.create.checks("own", [satisfies(bool)])


def test_a_combination_scores_by_other_graders(client: httpx.Client, run: Callable[..., Any], tmp_path: Path) -> None:
    for key, score in (("full", "1.0"), ("half", "0.5"), ("broken", "1 / (len(thread.completion()) - 4)")):
        create(client, key, f"async def grade(thread):\n    return {score}\n")
    (tmp_path / "mean.json").write_text(json.dumps({"parts": ["full", "half"], "formula": "full - half / 2"}))
    made = run("create", "mean", "--kind", "combine", "--config", str(tmp_path / "mean.json"))
    assert made.stdout == "created mean@1 (isolation: batch)\n", made.output
    client.put(f"{URL}/half", json={"source": "async def grade(thread):\n    return 0.0\n"})
    found = scored(client, "mean")
    assert found["score"] == 0.75  # the score of the pinned version
    assert found["details"]["parts"]["half"]["grader"] == "half"
    config = {"parts": ["full", "broken"]}
    body = {"key": "both", "kind": "combine", "config": config}
    assert client.post(URL, json=body).status_code == 201
    (outcome,) = client.post(f"{URL}/both/score", json={"threads": [{"completion": "long"}]}).json()["outcomes"]
    assert (outcome["score"], outcome["error"]["kind"], outcome["error"]["cause"]) == (None, "model", "failed")
    assert outcome["details"]["parts"]["full"]["score"] == 1.0
    assert "ZeroDivisionError" in outcome["details"]["parts"]["broken"]["error"]["message"]


def test_a_combination_warns_of_parts_that_another_python_checked(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("api.routes.graders.PYTHON", "3.1")
        create(client, "old")
    create(client, "new")
    body = {"key": "both", "kind": "combine", "config": {"parts": ["old", "new"]}}
    (warning,) = answer_of(client.post(URL, json=body), 201)["warnings"]
    assert warning.startswith("old@1 was checked in Python 3.1, and the service has ")


_PARTS = {
    "length": "async def grade(thread):\n    return len(thread.completion()) / 2\n",
    "odd": """
from gradebox import NotApplicable, Score


async def grade(thread):
    said = thread.completion()
    if said == "na":
        raise NotApplicable("nothing to say")
    if said == "deep":
        details = {}
        for _ in range(200):
            details = {"in": details}
        return Score(1.0, details=details)
    if said == "long":
        return Score(0.5, "r" * 3000, {"a": 1.0}, {"text": "x" * 15_000, "option": "half"})
    return 1 / (said != "broken")
""",
}


@pytest.mark.parametrize(
    "config",
    [
        {"parts": ["length", "odd"]},
        {"parts": {"a": "length", "b": {"grader": "odd", "required": True}}},
        {
            "parts": {"a": {"grader": "length", "range": [0, 2]}, "b": {"grader": "odd", "range": [0, 1]}},
            "normalize": True,
        },
        {"parts": {"a": "length", "b": {"grader": "odd", "target_option": "half"}}, "formula": "1 / (a - 1.5) + b"},
    ],
)
def test_a_combination_that_asks_no_server_scores_as_its_source_does(
    client: httpx.Client, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, source in _PARTS.items():
        create(client, key, source)
    assert client.post(URL, json={"key": "both", "kind": "combine", "config": config}).status_code in (201, 422)
    if client.get(f"{URL}/both").status_code == 404:  # the default test thread has no such option
        shown = [{"completion": "long"}]
        answer_of(client.post(URL, json={"key": "both", "kind": "combine", "config": config, "threads": shown}), 201)
    said = ["", "na", "broken", "deep", "long", "four!", "\ud800", "x" * 50]
    threads = [*({"id": n, "completion": text} for n, text in enumerate(said)), {"no": "thread"}, {"messages": []}]
    threads += [{"messages": [{"role": "user", "content": "q"}]}]

    def outcomes() -> list[dict[str, Any]]:
        answer = answer_of(client.post(f"{URL}/both/score", content=json.dumps({"threads": threads})))
        return [{**one, "run_ms": 0} for one in answer["outcomes"]]

    together = outcomes()
    score_together = scoring.combined_scorer
    monkeypatch.setattr(scoring, "combined_scorer", lambda *_: None)
    by_source = outcomes()
    assert together == by_source
    assert "surrogates" not in json.dumps(together)
    assert {one["error"]["kind"] for one in together if "error" in one} >= {"model", "bad_input"}
    assert client.delete(f"{URL}/odd").status_code == 204
    by_source = outcomes()
    monkeypatch.setattr(scoring, "combined_scorer", score_together)
    together = outcomes()
    assert together == by_source
    assert {one["error"].get("cause") for one in together} >= {"unknown"}
    assert not any("score" in one and one["score"] is not None for one in together)


def test_a_stored_combination_that_is_refused_now_gives_errors_that_say_why(
    client: httpx.Client, service: Service, redis: Redis, worker: None
) -> None:
    create(client)
    config = {"parts": {"a": "exact", "b": "exact"}, "formula": "a + b"}
    answer_of(client.post(URL, json={"key": "both", "kind": "combine", "config": config}), 201)
    versions = redis_keys.versions("default", "both")
    stored: Any = redis.hget(versions, "1")
    redis.hset(versions, "1", stored.replace(b"a + b", b"1 + 1"))
    threads = [{"completion": "4"}] * 2
    said = answer_of(client.post(f"{URL}/both/score", json={"threads": threads}))["outcomes"]
    assert "formula= names no part" in said[0]["error"]["message"]
    assert [one["error"]["kind"] for one in said] == ["exception"] * 2
    sent = {"graders": [{"key": "both"}], "threads": threads}
    batch = answer_of(client.post(f"{PROJECT}/batches", json=sent), 202)["id"]
    assert finished(client, batch)["errors"] == {"exception": 2}


def test_the_error_of_a_combination_is_as_long_as_the_settings_say(
    client: httpx.Client, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool.settings, "text_bytes", 300)
    for key in "ab":
        create(
            client,
            key,
            "async def grade(thread):\n    assert len(thread.completion()) < 2, 'long' * 99\n    return 1\n",
        )
    answer_of(client.post(URL, json={"key": "both", "kind": "combine", "config": {"parts": ["a", "b"]}}), 201)
    (outcome,) = answer_of(client.post(f"{URL}/both/score", json={"threads": [{"completion": "44"}]}))["outcomes"]
    assert 296 < len(outcome["error"]["message"].encode()) <= 300


def test_every_kind_of_judge_is_made_over_http_and_by_the_client(client: httpx.Client, ours: Client) -> None:
    configs: dict[str, dict[str, Any]] = {
        "judge": {"criterion": "conciseness", "judge_model": "small-judge", "check_positional_bias": True},
        "faithfulness": {"judge_model": "small-judge", "documents": "metadata.found"},
        "context_relevancy": {"judge_model": "small-judge"},
        "answer_relevancy": {"judge_model": "small-judge", "temperature": None},
        "multi_criteria": {
            "criteria": ["conciseness", {"criterion": "Is it kind?", "required": True}],
            "judge_model": "small-judge",
            "normalize_scores": True,
        },
        "combine": {
            "parts": {
                "a": {"grader": "good@1", "weight": 1},
                "b": {
                    "kind": "judge",
                    "config": {"criterion": "conciseness", "judge_model": "small-judge"},
                    "weight": 2,
                },
            },
            "normalize": False,
        },
        "pairwise_judge": {"criterion": "Is it better?", "judge_model": "small-judge", "allow_ties": True},
    }
    create(client, "good", GOOD)
    threads = [{"prompt": "q", "completion": "c", "metadata": {"found": ["d"], "documents": ["d"]}}]
    group = [{"prompt": "q", "completions": ["c", "d"]}]
    for kind, config in configs.items():
        shown = group if kind == "pairwise_judge" else threads
        body = {"key": kind, "kind": kind, "config": config, "ask": "stand-in", "threads": shown}
        made = answer_of(client.post(URL, json=body), 201)
        assert made["kind"] == kind
        version = client.get(f"{URL}/{kind}/versions/1").json()
        assert (version["source"], version["config"]) == (source_of(kind, config), config)
        make = getattr(ours.graders.create, kind)
        again = make(key=f"{kind}-2", ask="stand-in", threads=shown, **config)
        assert (again.kind, again.version) == (kind, 1)
    edited = client.put(f"{URL}/judge", json={"source": GOOD}).json()
    assert (edited["version"], edited["kind"]) == (2, "function")
