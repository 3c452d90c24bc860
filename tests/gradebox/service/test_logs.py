"""Tests of what the service logs and never logs."""

import io
import json
import logging
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

import httpx
import pytest

from gradebox.client import Client
from gradebox.service.logs import LONGEST, Sparing, escaped
from tests.gradebox.conftest import ROOT, Service, scored, serving

_ROUTES_OF_WRONG_KEYS = 5
ESCAPES = "\x1b]0;owned\x07\x1b[31mred\r\n\u202egnp\u2028\x9b1m"
HALF = "async def grade(thread):\n    return 0.5\n"
PROGRAM = """
import logging, sys
import structlog
from gradebox.client import Client
from gradebox.service.logs import LogSettings, configure
configure("test", LogSettings(log_format=sys.argv[1], log_level="info"))
structlog.get_logger().warning("own words", error=ESCAPES, count=3)
logging.getLogger("library").info("a library says %s", ESCAPES)
structlog.get_logger().debug("not at this level")
try:
    try:
        raise KeyError("tenant's words")
    except KeyError:
        raise ConnectionError("ours") from None
except ConnectionError:
    logging.getLogger("library").exception("it failed")
try:
    raise ValueError("tenant's words")
except ValueError:
    structlog.get_logger().exception("it failed")
"""


@cache
def logged(how: str) -> str:
    program = PROGRAM.replace("ESCAPES", ascii(ESCAPES))
    done = subprocess.run(
        [sys.executable, "-c", program, how], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == ""
    return done.stderr


def test_each_line_is_an_object_whoever_logs() -> None:
    lines = [json.loads(line) for line in logged("json").splitlines()]
    assert [line["event"][:9] for line in lines] == ["own words", "a library", "it failed", "it failed"]
    assert [line["level"] for line in lines] == ["warning", "info", "error", "error"]
    assert all(line["role"] == "test" and line["at"].endswith("Z") for line in lines)
    assert lines[0]["count"] == 3
    assert lines[1]["logger"] == "library"


def test_an_exception_is_told_without_words_that_may_be_a_tenants() -> None:
    text = logged("json")
    known, unknown = (json.loads(line) for line in text.splitlines()[2:])
    assert (known["exception"], known["message"]) == ("ConnectionError", "ours")
    assert unknown["exception"] == "ValueError"
    assert [frame.split(":")[0] for frame in unknown["frames"]] == ["<string>"]
    assert "tenant" not in text


@pytest.mark.parametrize("how", ["json", "text"])
def test_no_value_moves_a_terminal_or_begins_a_line(how: str) -> None:
    text = logged(how)
    assert len(text.splitlines()) == 4
    assert all(line.isprintable() for line in text.split("\n"))
    values = json.loads(text.splitlines()[0])["error"] if how == "json" else text
    assert "\\x1b]0;owned\\x07" in values


def test_long_values_are_cut() -> None:
    assert len(escaped("a" * 1_000_000)) < LONGEST + 50
    assert escaped("naïve — 数") == "naïve — 数"


def test_lines_of_one_kind_are_counted_when_they_are_many() -> None:
    now = 0.0
    spares = Sparing(a_minute=3, clock=lambda: now)

    def passed(message: str, times: int) -> list[str]:
        records = [logging.LogRecord("library", logging.WARNING, "", 1, message, (n,), None) for n in range(times)]
        return [record.getMessage() for record in records if spares.filter(record)]

    assert passed("refused %d", 5) == ["refused 0", "refused 1", "refused 2"]
    assert passed("another %d", 1) == ["another 0"]
    now = 61.0
    assert passed("refused %d", 2) == ["refused 0 (and 2 similar ones that were not logged)", "refused 1"]
    assert passed("another %d", 1) == ["another 0"]
    assert sum(len(passed(f"{kind}: %d", 1)) for kind in range(5_000)) < 1_001


@pytest.mark.service
@pytest.mark.sandbox
def test_strangers_fill_no_log(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "1") as service:
        logs = tmp_path / "data" / "logs"
        before = sum(log.stat().st_size for log in logs.iterdir())
        with httpx.Client(base_url=service.url) as stranger:
            for number in range(300):
                stranger.get("/v1/projects", headers={"Authorization": f"Bearer wrong-{number}"})
        for _ in range(100):
            with socket.create_connection((httpx.URL(service.url).host, httpx.URL(service.url).port or 0)) as broken:
                broken.sendall(b"no HTTP\r\n\r\n")
                broken.recv(1000)
        grown = sum(log.stat().st_size for log in logs.iterdir()) - before
    assert grown < 5_000, (logs / "api.log").read_text()
    assert '"401": 100, "429": 200, "400": 100' in (logs / "api.log").read_text()


@pytest.mark.service
@pytest.mark.sandbox
def test_no_secret_is_left_anywhere_and_no_tenant_content_in_any_log(tmp_path: Path) -> None:
    source = """
# marker-source
async def grade(thread):
    print("marker-stdout")
    text = thread.completion()
    if "die" in text:
        import os
        os._exit(3)
    if "raise" in text:
        raise ValueError("marker-exception " + text)
    return 0.5
"""
    threads = [{"completion": f"marker-completion {what}", "id": "marker-id"} for what in ("", "raise", "die")]
    with serving(tmp_path, "--workers", "1", log_level="debug") as service, service.client() as client:
        client.graders.create.function(key="g", fn=source, description="marker-description")
        client.score("g", threads)
        lines = [json.dumps(line).encode() for line in (*threads, {"marker-bad": 1})]
        batch = scored(client, "g", io.BytesIO(b"\n".join(lines)))
        headers = {"Authorization": "Bearer gbx_marker-wrong"}
        httpx.get(f"{service.url}/v1/projects/marker-path/graders?marker=marker-query", headers=headers)
        headers["Authorization"] = f"Bearer {service.key}"
        url = f"{service.url}/v1/projects/default"
        httpx.post(f"{url}/batches", json={"graders": [{"key": "marker-key"}], "threads": []}, headers=headers)
        httpx.post(f"{url}/validate", content=b"marker-body(", headers={**headers, "Content-Type": "text/x-python"})
        httpx.post(f"{url}/graders", content=b'{"marker-json', headers={**headers, "Content-Type": "application/json"})
        secrets = _used_everywhere(service, client, batch.id)
    logs = [*(tmp_path / "data" / "logs").glob("*.log"), tmp_path / "stderr"]
    text = "".join(log.read_text() for log in logs)
    assert '"event": "request"' in text
    assert '"event": "chunk scored"' in text
    assert '"level": "debug"' in text
    assert "marker" not in text
    files = [file for file in tmp_path.rglob("*") if file.is_file() and file.name != "api-key"]
    assert {"api.log"} <= {file.name for file in files}
    assert any(b"gradebox:api-keys" in file.read_bytes() for file in files if file.parent.name == "appendonlydir")
    for file in files:
        data = file.read_bytes()
        for secret in secrets:
            assert secret.encode() not in data, f"{file} holds a key"
            assert secret.split("_", 2)[-1].encode() not in data, f"{file} holds a part of a key"


def _used_everywhere(service: Service, client: Client, batch: str) -> list[str]:
    """Uses the first key, a narrow one and a revoked one on every route, and wrong ones on some. Returns all keys."""
    narrow, revoked = (client.keys.create(role, ["default"], role) for role in ("read", "manage"))
    client.keys.revoke(revoked.id)
    wrong = [f"gbx_{narrow.id}_{'w' * 43}", "Zm9vOmJhci1zZWNyZXQ", f"{service.key}x", f"x{service.key}"]
    secrets = [service.key, narrow.secret or "", revoked.secret or "", *wrong]
    places = {"project": "default", "key": "g", "batch_id": batch, "number": 1, "key_id": narrow.id}
    with httpx.Client(base_url=service.url, timeout=60) as anyone:
        paths = anyone.get("/openapi.json").json()["paths"]
        for secret in secrets:
            headers = {"Authorization": f"Bearer {secret}"}
            # No route reads a wrong key, and after a hundred of them the rest is refused without a look.
            for path, operations in list(paths.items())[: _ROUTES_OF_WRONG_KEYS if secret in wrong else None]:
                for method in set(operations) - {"delete"}:
                    body = {"source": HALF} if method != "get" else None
                    anyone.request(method.upper(), path.format_map(places), json=body, headers=headers)
    return secrets
