"""Tests of the images and of the stack of compose.yaml: they are built, started, used and removed."""

import json
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import pytest

from gradebox.client import Client
from gradebox.errors import ConnectionFailed
from sandbox.backend_choice import prove
from sandbox.backends.docker import Docker
from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool
from sandbox.settings import SandboxSettings
from tests.backends import NEEDED, OF_ISOLATION, backend_of, selftest
from tests.waiting import eventually

ROOT = Path(__file__).parents[1]
SLOW = """
import time

async def grade(thread) -> float:
    time.sleep(0.02)
    return float(thread.completion())
"""
# The kinds of bad graders that depend on a container's rights: what its mounts and its seccomp profile leave to a
# sandbox. As for an ordinary user outside, no sandbox there has a control group, so the guest bounds its memory and
# its processes: some module bodies try to exceed these bounds.
_OF_A_CONTAINER = OF_ISOLATION - {"resource"} | {"module"}
pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.sandbox, pytest.mark.timeout(900)]


def _run(*command: str, **environment: str) -> str:
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def tools() -> None:
    """Requires root, Docker, docker-compose and mmdebstrap. Without them, the tests are skipped or, in CI, fail."""
    backend_of("docker")
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [name for name in ("docker", "docker-compose", "mmdebstrap") if shutil.which(name, path=path) is None]
    if os.geteuid() != 0:
        missing.append("root")
    if missing:
        why = f"these are missing for the images: {', '.join(missing)}"
        if "docker" in NEEDED:
            pytest.fail(why)
        pytest.skip(why)


@pytest.fixture(scope="module")
def names(tools: None) -> Iterator[dict[str, str]]:
    """The names of the images of this run. Removes the images at the end."""
    tag = secrets.token_hex(4)
    names = {part: f"gradebox-test-{part}:{tag}" for part in ("base", "service", "sandbox")}
    yield names
    for name in names.values():
        subprocess.run(["docker", "rmi", "--force", name], capture_output=True)


@pytest.fixture(scope="module")
def images(names: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Builds both targets with the classic builder, without a network."""
    with ThreadPoolExecutor() as both:
        base = both.submit(_run, str(ROOT / "scripts" / "images"), "base", names["base"])
        context = both.submit(_context, tmp_path_factory.mktemp("context") / "gradebox").result()
        base.result()
    for target in ("service", "sandbox"):
        build = ["docker", "build", "--network", "none", "--build-arg", f"BASE={names['base']}"]
        _run(*build, "--target", target, "--tag", names[target], context, DOCKER_BUILDKIT="0")
    return names


def _context(folder: Path) -> str:
    """A copy of the repository with wheels, as for a build without a network."""
    kept = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "tests", "benchmarks", "wheels")
    shutil.copytree(ROOT, folder, ignore=kept)
    _run(str(ROOT / "scripts" / "images"), "wheels", str(folder / "wheels"))
    return str(folder)


class Stack:
    """The stack of compose.yaml, under a new project name."""

    def __init__(self, images: dict[str, str]) -> None:
        self.project = f"gradebox-test-{secrets.token_hex(4)}"
        self._engine = docker.from_env().api
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._environment = {
            "COMPOSE_PROJECT_NAME": self.project,
            "GRADEBOX_IMAGE": images["service"],
            "GRADEBOX_BASE": images["base"],
            "GRADEBOX_REDIS_IMAGE": images["base"],
            "GRADEBOX_PORT": str(self.port),
        }

    def compose(self, *arguments: str) -> str:
        return _run("docker-compose", *arguments, **self._environment)

    def containers(self, service: str = "", **filters: str) -> list[str]:
        """The names of containers, including stopped ones."""
        labels = [f"com.docker.compose.project={self.project}"]
        labels += [f"com.docker.compose.service={service}"] if service else []
        found = self._engine.containers(all=True, filters={"label": labels, **filters})
        return [container["Names"][0].removeprefix("/") for container in found]

    def run(self, service: str, *command: str) -> str:
        """Runs a command in the first container of a service."""
        return _run("docker", "exec", self.containers(service)[0], *command)

    def healthy(self) -> bool:
        return len(self.containers(health="healthy")) == len(self.containers())

    def left(self) -> list[object]:
        """The containers, networks and volumes of the stack."""
        label = {"label": f"com.docker.compose.project={self.project}"}
        engine = self._engine
        return [*self.containers(), *engine.networks(filters=label), *engine.volumes(filters=label)["Volumes"]]


@pytest.fixture(scope="module")
def stack(images: dict[str, str]) -> Iterator[Stack]:
    stack = Stack(images)
    try:
        stack.compose("up", "--detach", "--no-build", "--scale", "worker=2")
        yield stack
    finally:
        stack.compose("down", "--volumes", "--timeout", "5")
    assert stack.left() == []


@pytest.fixture(scope="module")
def client(stack: Stack) -> Client:
    eventually(stack.healthy, 120.0, every_s=0.5)
    key = stack.run("api", "cat", "/data/api-key").strip()
    return Client(f"http://127.0.0.1:{stack.port}", key)


def test_the_sandbox_image_has_the_interpreter_and_the_guest_alone(images: dict[str, str]) -> None:
    settings = SandboxSettings(backend="docker", docker_image=images["sandbox"])
    backend = Docker(settings)
    prove(backend)
    with Pool(backend, settings) as pool:
        assert pool.prove(GraderSource("import sqlite3\nasync def grade(t):\n    return 1.0\n")).valid
    look = "import os; print(os.path.exists('/bin/sh'), os.path.exists('/usr/bin/pip'), sorted(os.listdir('/usr/bin')))"
    command = ["docker", "run", "--rm", "--network", "none", images["sandbox"], "/usr/bin/python3", "-c", look]
    assert _run(*command).strip() == "False False ['python', 'python3', 'python3.11']"


def test_a_batch_is_scored_and_a_killed_worker_is_replaced(client: Client, stack: Stack) -> None:
    grader = client.graders.create.function(key="number", fn=SLOW)
    assert grader.key == "number"
    batch = client.batches.create("number", [{"completion": str(number)} for number in range(1500)])
    eventually(lambda: batch.refresh().done > 0, 120.0, every_s=0.1)
    killed, _ = workers = stack.containers("worker")
    started = _run("docker", "inspect", "--format", "{{.State.StartedAt}}", killed)
    _run("docker", "exec", killed, "python", "-c", "import os, signal; os.kill(1, signal.SIGTERM)")
    _run("docker", "kill", workers[1])
    stack.compose("up", "--detach", "--no-build", "--scale", "worker=3")
    batch.wait()
    assert [outcome.score for outcome in batch.outcomes()] == [float(number) for number in range(1500)]
    eventually(stack.healthy, 120.0, every_s=0.5)
    assert len(stack.containers("worker")) == 3
    assert _run("docker", "inspect", "--format", "{{.State.StartedAt}}", killed) != started, "it did not start again"


def test_what_was_accepted_survives_a_killed_redis(client: Client, stack: Stack) -> None:
    client.graders.create.function(key="later", fn=SLOW)
    batch = client.batches.create("later", [{"completion": str(number)} for number in range(600)])
    _run("docker", "kill", *stack.containers("redis"))
    stack.compose("up", "--detach", "--no-build", "--scale", "worker=3")
    eventually(lambda: _finished(client, batch.id), 120.0, every_s=0.2)
    assert [outcome.score for outcome in batch.outcomes()] == [float(number) for number in range(600)]


def _finished(client: Client, batch_id: str) -> bool:
    try:
        return client.batches.get(batch_id).state == "finished"
    except ConnectionFailed:
        return False


def test_nothing_gets_through_in_a_worker(client: Client, stack: Stack) -> None:
    """Runs the attacks in a deployed worker, because bubblewrap has other rights in a container."""
    result = json.loads(stack.run("worker", "gradebox", *selftest(_OF_A_CONTAINER)))
    assert result["backend"] == "bubblewrap"
    assert result["user"] == 10001
    assert result["breaches"] == []
    assert result["tried"].keys() == _OF_A_CONTAINER


def test_sandboxes_are_forked_from_a_zygote_there_too(client: Client, stack: Stack) -> None:
    told = json.loads(stack.run("worker", "gradebox", "doctor", "--json"))
    (zygote,) = [one for one in told["backends"]["bubblewrap"] if one["name"] == "sandboxes forked from a zygote"]
    assert zygote["in_force"], zygote


def test_the_service_runs_as_an_ordinary_user_on_a_file_system_it_cannot_write(client: Client, stack: Stack) -> None:
    look = "import os; print(os.getuid(), os.access('/opt/gradebox', os.W_OK), os.access('/usr', os.W_OK))"
    for service in ("api", "worker"):
        assert stack.run(service, "python", "-c", look).split() == ["10001", "False", "False"]


def test_workers_do_not_have_the_first_key(client: Client, stack: Stack) -> None:
    look = "import os; print(os.path.exists('/data/api-key'))"
    for service, told in (("api", "True"), ("worker", "False")):
        assert stack.run(service, "python", "-c", look).strip() == told
