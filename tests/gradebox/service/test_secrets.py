"""Tests that no secret is in a log, in Redis or in the spool, whatever it was used for."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.gradebox.conftest import serving

pytestmark = pytest.mark.service

GRADER = "async def grade(thread):\n    return 1.0\n"
THREADS = [{"turns": [["assistant", "4"]]}]


def secrets_of(folder: Path) -> Iterator[str]:
    """Yields keys after one use of each on every route: the first key, a narrow one, a revoked one, and wrong ones."""
    with serving(folder) as service, httpx.Client(base_url=service.url, timeout=60) as client:
        operator = {"Authorization": f"Bearer {service.key}"}

        def made(role: str) -> dict[str, str]:
            body = {"name": role, "projects": ["default"], "role": role}
            return dict(client.post("/v1/keys", json=body, headers=operator).json())

        narrow, revoked = made("read"), made("manage")
        client.delete(f"/v1/keys/{revoked['id']}", headers=operator).raise_for_status()
        grader = {"key": "g", "source": GRADER}
        client.post("/v1/projects/default/graders", json=grader, headers=operator).raise_for_status()
        batch = client.post(
            "/v1/projects/default/batches", json={"graders": [{"key": "g"}], "threads": THREADS}, headers=operator
        ).json()["id"]
        places = {"project": "default", "key": "g", "batch_id": batch, "number": 1, "key_id": narrow["id"]}
        paths = client.get("/openapi.json").json()["paths"]
        wrong = [f"gbx_{narrow['id']}_{'w' * 43}", "Zm9vOmJhci1zZWNyZXQ", f"{service.key}x", f"x{service.key}"]
        for secret in (service.key, narrow["secret"], revoked["secret"], *wrong):
            for path, operations in paths.items():
                for method in set(operations) - {"delete"}:
                    url = path.format_map(places)
                    client.request(
                        method.upper(),
                        url,
                        json={"source": GRADER} if method != "get" else None,
                        headers={"Authorization": f"Bearer {secret}"},
                    )
            yield secret


def test_no_secret_is_left_anywhere(tmp_path: Path) -> None:
    secrets = list(secrets_of(tmp_path))
    files = [file for file in tmp_path.rglob("*") if file.is_file() and file.name != "api-key"]
    assert {"api.log"} <= {file.name for file in files}
    assert any(b"gradebox:api-keys" in file.read_bytes() for file in files if file.parent.name == "appendonlydir")
    for file in files:
        data = file.read_bytes()
        for secret in secrets:
            assert secret.encode() not in data, f"{file} holds a key"
            assert secret.split("_", 2)[-1].encode() not in data, f"{file} holds a part of a key"
