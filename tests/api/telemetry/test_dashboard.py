"""Tests that the Grafana dashboard and the alerts query only metrics of the service."""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gradebox.schemas import ModelDefaults
from models.asks.ask_context import AskContext
from tests.api.conftest import PROJECT, Service, create, finished

ROOT = Path(__file__).parents[3]
DASHBOARD = json.loads((ROOT / "docs" / "observability" / "dashboard.json").read_text())
PAGE = (ROOT / "docs" / "observability.md").read_text()
RULES = ROOT / "deploy" / "prometheus-rules.yaml"
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
OF_PANELS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
QUERIES = [*OF_PANELS, *(alert["expr"] for alert in ALERTS)]
OF_PROMETHEUS = {"job", "instance"}  # Prometheus adds these
WORDS = {"by", "without", "sum", "max", "min", "rate", "increase", "topk", "histogram_quantile", "le", "up"}
ASK = b'{"ask":"model","messages":[{"content":"?","role":"user"}],"name":"judge","sample":0}'
METRIC = re.compile(r"\b(?:gradebox|process)_[a-z_]+")


@pytest.fixture
def told(service: Service, client: httpx.Client, worker: None) -> dict[str, set[str]]:
    """The labels of each series, after the service has scored threads and asked a model."""
    create(client, "exact")
    body = {"graders": [{"key": "exact"}], "threads": [{"completion": "4"}, {"completion": "5"}]}
    finished(client, str(client.post(f"{PROJECT}/batches", json=body).json()["id"]))
    store, asker = service.services.store, service.services.asker
    store.models.create("default", "judge", "http://127.0.0.1:9/v1", "m", "", ModelDefaults(), 5)
    asker.ask(ASK, AskContext("default", "g", "g@1", asks={"model:judge": ""}), lambda: True).result(30)
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(_metrics(service)):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def _metrics(service: Service) -> str:
    """Waits for the metrics of the worker, which it reports every few seconds."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        text = httpx.get(f"{service.url}/metrics").text
        if "gradebox_completions_total{" in text:
            return text
        time.sleep(0.2)
    raise AssertionError("the worker did not tell its metrics")


@pytest.mark.sandbox
def test_every_query_asks_for_what_there_is(told: dict[str, set[str]]) -> None:
    assert len(QUERIES) > 25
    for query in QUERIES:
        asked = METRIC.findall(query)
        assert asked or "(up{" in query, query
        for metric in asked:
            assert metric in told, f"{metric} of {query!r} is not told"
        known = set[str]().union(*(told[metric] for metric in asked))
        grouped = {label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")}
        matched = set(re.findall(r"(\w+)!?=~?\"", query))
        assert grouped | matched <= known | OF_PROMETHEUS, f"{query!r} names labels that are not there"


def test_the_dashboard_shows_one_deployment_of_several() -> None:
    for query in OF_PANELS:
        assert len(METRIC.findall(query)) == query.count('{job=~"$job"'), query
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "job"]


def test_alerts_are_what_prometheus_takes() -> None:
    assert len({alert["alert"] for alert in ALERTS}) == len(ALERTS) > 5
    for alert in ALERTS:
        assert set(alert["annotations"]) == {"summary", "description"}
        assert alert["labels"]["severity"] in ("critical", "warning", "info")
        grouped = {label for group in re.findall(r"by \(([^)]*)\)", alert["expr"]) for label in group.split(", ")}
        assert set(re.findall(r"\$labels\.(\w+)", str(alert["annotations"]))) <= grouped
    if (promtool := shutil.which("promtool")) is not None:
        done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_queries_are_well_formed() -> None:
    for query in QUERIES:
        assert query.count("(") == query.count(")"), query
        bare = METRIC.sub(" ", re.sub(r"\{[^}]*\}|\[[^\]]*\]|(?:by|without|on) \([^)]*\)", " ", query))
        assert set(re.findall(r"[a-z_]+", bare)) <= WORDS, query
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            groups = re.findall(r"by \(([^)]*)\)", target["expr"])
            assert not groups or shown <= {label.strip() for group in groups for label in group.split(",")}


@pytest.mark.sandbox
def test_every_metric_is_in_the_docs(told: dict[str, set[str]]) -> None:
    named = {re.sub(r"_(?:bucket|count|sum)$", "", name) for name in told if name.startswith("gradebox_")}
    missing = {name for name in named if f"`{name}`" not in PAGE}
    assert not missing, f"docs/observability.md does not say what these are: {missing}"
