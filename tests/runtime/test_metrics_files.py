"""Tests of the metrics of several processes at one address."""

import threading
import time
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from runtime import metrics_files
from runtime.metrics import Metrics
from runtime.metrics_files import MergedMetrics, MetricsFile


def written(folder: Path, name: str, batches: int) -> None:
    counted = Metrics("worker")
    counted.ended.labels("finished").inc(batches)
    counted.completions.add('p"\\', "ü\n", batches, 0, {}, 1.0)
    MetricsFile(counted.registry, folder / f"{name}.prom").write()


def test_series_of_workers_are_told_apart_and_each_metric_is_told_once(tmp_path: Path) -> None:
    written(tmp_path, "worker-1", 2)
    written(tmp_path, "worker-2", 3)
    own = Metrics("api")
    own.ended.labels("cancelled").inc()
    text = generate_latest(MergedMetrics(own.registry, tmp_path)).decode()
    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    (ended,) = [found for found in text_string_to_metric_families(text) if found.name == "gradebox_batches_ended"]
    values = {(one.labels["state"], one.labels.get("worker")): one.value for one in ended.samples}
    assert values == {
        ("cancelled", None): 1,
        ("finished", None): 0,
        ("cancelled", "worker-1"): 0,
        ("finished", "worker-1"): 2,
        ("cancelled", "worker-2"): 0,
        ("finished", "worker-2"): 3,
    }
    (scored,) = [found for found in text_string_to_metric_families(text) if found.name == "gradebox_completions"]
    assert {(one.labels["project"], one.labels["grader"]) for one in scored.samples} == {('p"\\', "ü\n")}


def test_a_file_that_cannot_be_read_leaves_the_others(tmp_path: Path) -> None:
    written(tmp_path, "worker-1", 2)
    (tmp_path / "worker-0.prom").write_bytes(b"\xff\xfe")
    (tmp_path / "worker-2.prom").write_text("gradebox_batches_ended_total{ 3")
    text = generate_latest(MergedMetrics(Metrics("api").registry, tmp_path)).decode()
    assert 'gradebox_batches_ended_total{state="finished",worker="worker-1"} 2.0' in text


def test_a_file_is_written_again_when_it_could_not_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_files, "WRITE_S", 0.05)
    file = MetricsFile(Metrics("worker").registry, tmp_path / "later" / "worker-1.prom")
    file.start()
    time.sleep(0.2)
    assert file in threading.enumerate()
    (tmp_path / "later").mkdir()
    ends = time.monotonic() + 10
    while not list((tmp_path / "later").glob("*.prom")):
        assert time.monotonic() < ends
        time.sleep(0.01)
    file.end()
    assert [path.name for path in (tmp_path / "later").iterdir()] == ["worker-1.prom"]
