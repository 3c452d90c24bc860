"""Tests of the files that define the images and the stack, without an engine. test_compose.py builds and runs them."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]


def _services() -> dict[str, dict[str, Any]]:
    services: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return services


@pytest.mark.parametrize("name", ["redis", "api", "worker", "asking-worker"])
def test_each_container_has_limits(name: str) -> None:
    service = _services()[name]
    assert service["mem_limit"]
    assert service["cpus"]
    assert isinstance(service["pids_limit"], int)  # docker-compose passes the value to the engine unchanged
    assert service["logging"]["options"]["max-size"]


def test_with_the_docker_socket_whatever_runs_graders_has_it() -> None:
    with_socket = yaml.safe_load((ROOT / "compose.docker.yaml").read_text())["services"]
    assert set(with_socket) == set(_services()) - {"redis"}
    for service in with_socket.values():
        assert service["environment"]["GRADEBOX_BACKEND"] == "docker"
        assert service["volumes"] == ["/var/run/docker.sock:/var/run/docker.sock"]
        assert service["pid"] == "host"  # otherwise each completion that a busy machine keeps waiting is a timeout
        assert service["group_add"][0].startswith("${DOCKER_GID:?")  # the engine's error would not name it


@pytest.mark.parametrize("file", ["compose.docker.yaml", "docs/deployment.md"])
def test_the_docker_socket_is_chosen_for_each_later_command(file: str, tmp_path: Path) -> None:
    """Files on one command line would be forgotten by the next `docker-compose up`, which changes the backend."""
    (socket := tmp_path / "docker.sock").touch()
    os.chown(socket, -1, os.getgid())
    command, *_ = re.findall(r"printf 'COMPOSE_FILE.* >>\.env$", (ROOT / file).read_text(), re.MULTILINE)
    _run(command.replace("/var/run/docker.sock", str(socket)), tmp_path)
    wanted = f"COMPOSE_FILE=compose.yaml:compose.docker.yaml\nDOCKER_GID={os.getgid()}\n"
    assert (tmp_path / ".env").read_text() == wanted


def test_the_folder_of_environments_is_chosen_for_each_later_command(tmp_path: Path) -> None:
    command, *_ = re.findall(r"^printf 'GRADEBOX_E.* >>\.env$", (ROOT / "docs/deployment.md").read_text(), re.MULTILINE)
    _run(command, tmp_path)
    folder = "/var/lib/gradebox-environments"
    assert (tmp_path / ".env").read_text() == f"GRADEBOX_ENVIRONMENTS=on\nGRADEBOX_ENVIRONMENTS_DIR={folder}\n"


def _run(command: str, folder: Path) -> None:
    subprocess.run(["sh", "-c", command], cwd=folder, check=True)


def test_workers_do_not_have_the_first_key() -> None:
    services = _services()
    packages = "${GRADEBOX_ENVIRONMENTS_DIR:-environments}:${GRADEBOX_ENVIRONMENTS_DIR:-/environments}"
    assert set(services["api"]["volumes"]) == {"data:/data", "spool:/spool", "keys:/keys", packages}
    assert set(services["worker"]["volumes"]) == {"spool:/spool", packages}
    assert set(services["asking-worker"]["volumes"]) == {"spool:/spool", "keys:/keys:ro", packages}
    assert services["worker"]["environment"]["GRADEBOX_SPOOL_URL"] == "file:///spool"


def test_api_keys_of_models_can_be_read_where_models_are_asked() -> None:
    services = _services()
    for name in ("api", "worker"):
        assert services[name]["environment"]["GRADEBOX_SECRET_KEY_FILE"] == "/keys/secret-key"
        assert services[name]["environment"]["GRADEBOX_MODEL_HOSTS"] == "${GRADEBOX_MODEL_HOSTS:-}"
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert re.search(r"chown 10001:10001 .*/keys .*\n.*chmod 700 /data /keys", dockerfile)


@pytest.mark.parametrize("name", ["api", "worker"])
@pytest.mark.parametrize("folder", ["", "/srv/packages"])
def test_packages_lie_where_the_service_looks_for_them(name: str, folder: str) -> None:
    """The folder is a volume, or has the same path on the host, because the engine mounts it into sandboxes."""
    service = _services()[name]

    def filled(text: str) -> str:
        return re.sub(r"\$\{GRADEBOX_ENVIRONMENTS_DIR:-([^}]*)\}", lambda found: folder or found[1], text)

    (mounted,) = [filled(volume) for volume in service["volumes"] if "ENVIRONMENTS" in volume]
    inside = filled(service["environment"]["GRADEBOX_ENVIRONMENTS_DIR"])
    assert mounted == (f"{folder}:{folder}" if folder else "environments:/environments")
    assert inside == mounted.rpartition(":")[2]
    assert service["environment"]["GRADEBOX_ENVIRONMENTS"] == "${GRADEBOX_ENVIRONMENTS:-off}"
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert re.search(r"chown 10001:10001 .*/environments .*\n.*chmod 755 /environments", dockerfile)


def _pins(path: Path) -> list[str]:
    """The pinned packages, such as `fastapi==0.135.1`. Fails if one has no hash."""
    entries = re.split(r"\n(?=\S)", path.read_text().strip())
    assert all(re.match(r"[\w.-]+(\[[\w,-]+\])?==[^ ]+ (;[^\\]*)?\\\n *--hash=sha256:", entry) for entry in entries)
    return [entry.partition(" ")[0] for entry in entries]


def test_the_image_is_made_of_packages_that_are_checked_by_hash() -> None:
    known, build = _pins(ROOT / "requirements.lock"), _pins(ROOT / "deploy" / "build.lock")
    service = [line.partition(" ")[0] for line in (ROOT / "deploy" / "service.lock").read_text().splitlines()]
    assert set(service) <= set(known), "`make lock` writes all of them"
    names = [{pin.partition("==")[0] for pin in pins} for pins in (known, service, build)]
    assert {pin for pin in build if pin.partition("==")[0] in names[0]} <= set(known), "`make lock` writes all of them"
    assert {"fastapi", "uvicorn", "rq", "s3fs"} <= names[1]
    assert {"hatchling", "setuptools"} <= names[2]
    assert "pytest" not in str(service + build)


def test_each_install_checks_hashes() -> None:
    wheels = (ROOT / "scripts" / "wheels").read_text()
    assert re.findall(r"^pip (?!.*(--require-hashes|--no-deps .* \.$)).*", wheels, re.M) == []
    assert "scripts/wheels /source/wheels" in (ROOT / "Dockerfile").read_text()
    assert re.findall(r"pip install (?!.*--no-index).*", (ROOT / "Dockerfile").read_text()) == []


def test_wheels_of_other_code_stop_the_build(tmp_path: Path) -> None:
    def stale() -> subprocess.CompletedProcess[str]:
        return subprocess.run([ROOT / "scripts" / "stale-wheels", tmp_path], capture_output=True, text=True)

    assert stale().returncode == 0
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert stale().returncode == 0, stale().stdout
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("gradebox/_server/api/removed_since.py", "")
    assert stale().returncode == 1
    assert "was made of other code than this" in stale().stdout
    assert "scripts/stale-wheels /source/wheels" in (ROOT / "Dockerfile").read_text()
