"""Tests of traces of a real service, with a collector for OTLP over HTTP."""

import gzip
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.gradebox.conftest import ROOT, serving
from tests.waiting import eventually

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Stores received spans with the name of their service."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Span]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.path == "/v1/traces"
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            name = next(one.value.string_value for one in resource.resource.attributes if one.key == "service.name")
            self.spans += [(name, span) for scope in resource.scope_spans for span in scope.spans]

    def named(self, name: str) -> list[tuple[str, Span]]:
        return [(service, span) for service, span in self.spans if span.name == name]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    threading.Thread(target=collector.server.serve_forever, daemon=True).start()
    yield collector
    collector.close()


@pytest.mark.service
@pytest.mark.sandbox
def test_a_request_its_batch_and_its_chunks_are_one_trace_and_a_collector_that_is_away_costs_no_score(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
    with serving(tmp_path, "--workers", "1") as service, service.client() as client:
        client.graders.create.function(key="half", fn="async def grade(thread): return 1 / len(thread.completion())")
        lines = b'{"completion": "SECRET"}\n' * 300
        headers = {
            "Authorization": f"Bearer {service.key}",
            "Content-Type": "application/x-ndjson",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        }
        url = f"{service.url}/v1/projects/default/batches?grader=half"
        made = httpx.post(url, content=lines, headers=headers).json()
        client.batches.get(made["id"]).wait(progress=False, timeout=30)
        names = ("POST /v1/projects/{project}/batches", "accept batch", "score chunk")
        eventually(lambda: all(collector.named(name) for name in names))

        collector.close()
        began = time.monotonic()
        batch = client.batches.create("half", [{"completion": "ab"}] * 10)
        batch.wait(progress=False, timeout=30)
        assert time.monotonic() - began < 20
        assert [outcome.score for outcome in batch.outcomes()] == [0.5] * 10
    assert "was killed" not in (tmp_path / "stderr").read_text()

    (((_, request),), ((_, accepted),), chunks) = (collector.named(name) for name in names)
    assert request.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert request.parent_span_id.hex() == "b7ad6b7169203331"
    assert accepted.parent_span_id == request.span_id
    assert {service for service, _ in chunks} == {"gradebox-worker"}
    assert {span.parent_span_id for _, span in chunks} == {accepted.span_id}
    assert {span.trace_id for _, span in chunks} == {request.trace_id}
    told = {one.key: one.value for one in chunks[0][1].attributes}
    assert told["gradebox.batch"].string_value == made["id"]
    assert told["gradebox.grader"].string_value == "half@1"
    assert not any(b"SECRET" in span.SerializeToString() for _, span in collector.spans)


def test_nothing_of_it_is_imported_when_it_is_off() -> None:
    program = (
        "import sys; from runtime import tracing; tracing.start('worker'); "
        "block = tracing.span('a'); assert block is tracing.span('b'); "
        "assert tracing.current() == ''; "
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True, timeout=60)
