"""Tests by schemathesis with valid and invalid requests. `FUZZ_EXAMPLES` sets their number for each operation."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.api.access.test_auth import LINE, LINES
from tests.api.conftest import PROJECT, Service, create

EXAMPLES = os.environ.get("FUZZ_EXAMPLES", "4")
# The other test covers these operations: coverage depends on the schema, and rarely on what is there.
DELETE_ALONE = '[[operations]]\nexclude-method = "DELETE"\nphases.coverage.enabled = false\n'
# Their bodies have the fields of those that make graders, models, endpoints and environments: a quarter of the cases.
SAME_BODIES = """[phases.coverage]
unexpected-methods = ["QUERY"]

[[operations]]
include-name = [
    "POST /v1/projects/{project}/validate",
    "PUT /v1/projects/{project}/graders/{key}",
    "PATCH /v1/projects/{project}/models/{key}",
    "PATCH /v1/projects/{project}/endpoints/{key}",
    "PUT /v1/projects/{project}/environments/{key}",
]
phases.coverage.enabled = false
"""
# A schema cannot express which sources are valid.
NOT_CHECKED = "positive_data_acceptance"

pytestmark = pytest.mark.slow


def fuzz(service: Service, secret: str, folder: Path, *arguments: str) -> str:
    """Runs schemathesis and returns its output. It must find no 5xx, no undocumented answer and none after 30 s."""
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{service.url}/openapi.json", *arguments]
    command += ["--header", f"Authorization: Bearer {secret}", "--max-examples", EXAMPLES, "--seed", "1"]
    command += ["--request-timeout", "30", "--no-color", "--exclude-checks", NOT_CHECKED]
    # schemathesis makes neither zip files nor JSON lines. tests/worker/environments/test_data.py and
    # test_score_upload.py test both, also broken ones.
    command += ["--exclude-path-regex", "/environments/data$|/scores$"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.timeout(600)
def test_every_operation_bears_anything(service: Service, secret: str, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(DELETE_ALONE)
    said = fuzz(service, secret, tmp_path)
    assert "Fuzzing" in said
    assert httpx.get(f"{service.url}/readyz").status_code == 200


@pytest.mark.timeout(600)
def test_operations_on_what_is_there_bear_anything(
    service: Service, secret: str, client: httpx.Client, worker: None, tmp_path: Path
) -> None:
    create(client)
    batch = client.post(f"{PROJECT}/batches?grader=exact", content=LINE * 3, headers=LINES).json()["id"]
    parameters = {"project": "default", "key": "exact", "batch_id": batch, "number": 1}
    lines = [f'"path.{name}" = {value!r}' for name, value in parameters.items()]
    (tmp_path / "schemathesis.toml").write_text("\n".join([SAME_BODIES, "[parameters]", *lines, ""]))

    said = fuzz(service, secret, tmp_path, "--exclude-method", "DELETE", "--phases", "coverage,fuzzing")

    assert "Fuzzing" in said
    assert client.get(f"{PROJECT}/graders/exact").status_code == 200
    assert client.get("/v1/keys").status_code == 200
