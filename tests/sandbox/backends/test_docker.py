"""Tests of containers: their labels, their image, and engines that lack features."""

import contextlib
import json
import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient
from docker.errors import NotFound
from requests.exceptions import ReadTimeout

from sandbox import image
from sandbox.backend_choice import prove
from sandbox.backends.docker import Docker, backend, channel, images, leftovers, policy
from sandbox.backends.docker.backend import DockerSandbox
from sandbox.errors import InfrastructureError, IsolationUnavailable
from sandbox.grading.session import Session
from sandbox.kernel import hard_limits
from sandbox.shared_folders import Seen
from tests.backends import backend_of, settings_for
from tests.sandbox.contract.conftest import TOGETHER, Grader, started
from tests.waiting import eventually

pytestmark = pytest.mark.sandbox
_ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def made() -> Iterator[Docker]:
    found = backend_of("docker")(settings_for("docker"))
    assert isinstance(found, Docker)
    yield found
    found.close()


@pytest.fixture
def sandbox(made: Docker) -> Iterator[DockerSandbox]:
    started = made.start()
    yield started
    started.end()


def _known(made: Docker, **filters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = made.client.containers(all=True, filters=filters)
    return found


def test_a_container_that_is_killed_at_its_start_is_told(made: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def killed(sandbox: DockerSandbox, _container: str, _pid: int) -> None:
        names.append(sandbox.name)
        made.client.kill(sandbox.name)
        with contextlib.suppress(NotFound):  # the engine has removed it already
            made.client.wait(sandbox.name)

    monkeypatch.setattr(backend, "_CONNECT_S", 0.1)
    monkeypatch.setattr(DockerSandbox, "hold", killed)
    with pytest.raises(InfrastructureError, match=r"did not connect .*\. It ended with status 137, by signal 9$"):
        made.start()
    (name,) = names
    eventually(lambda: not _known(made, name=name))  # the engine may still be removing it


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"exitCode": "139"}, ". It ended with status 139, by signal 11"),
        ({"exitCode": "255"}, ". It ended with status 255"),
        ({}, ""),
    ],
)
def test_the_end_of_a_container_is_told_as_far_as_the_engine_knows_it(attributes: dict[str, str], said: str) -> None:
    class Engine(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"Actor": {"Attributes": attributes}}).encode())

    with HTTPServer(("127.0.0.1", 0), Engine) as engine:
        threading.Thread(target=engine.handle_request).start()
        client = APIClient(f"tcp://127.0.0.1:{engine.server_port}", version="1.41")
        assert DockerSandbox(client, "gradebox-1", Seen(), lambda _name, _dead: None).how_it_ended() == said


def test_the_engine_is_told_of_every_layer(made: Docker, sandbox: DockerSandbox) -> None:
    told = made.client.inspect_container(sandbox.name)
    host, config = told["HostConfig"], told["Config"]
    assert told["Name"].startswith("/gradebox-")
    layers = {"NetworkMode": "none", "ReadonlyRootfs": True, "CapDrop": ["ALL"], "Privileged": False}
    layers |= {"IpcMode": "none", "PidMode": ""}
    assert {name: host[name] for name in layers} == layers
    assert not host["CapAdd"] and not host["Devices"] and not host["Binds"]
    assert host["Memory"] == host["MemorySwap"] > 0
    assert 0 < host["PidsLimit"] < 100
    assert "no-new-privileges" in host["SecurityOpt"]
    assert host["LogConfig"]["Type"] == "none"
    assert [(mount["Destination"], mount["RW"]) for mount in told["Mounts"]] == [("/run/gradebox", False)]
    assert int(config["User"].partition(":")[0]) >= 1000
    assert config["Hostname"] == "sandbox"
    assert config["Labels"]["gradebox"] == "1"
    assert told["NetworkSettings"]["Networks"].keys() <= {"none"}


def test_no_default_of_the_engine_limits_what_graders_notice(made: Docker, sandbox: DockerSandbox) -> None:
    """`default-ulimits` for processor time made each completion a crash. With others, no grader was loaded."""
    told = made.client.inspect_container(sandbox.name)["HostConfig"]["Ulimits"]
    limits = {f"RLIMIT_{limit['Name'].upper()}": limit["Hard"] for limit in told}
    for what, _, needed, _ in hard_limits._NEEDED:
        (hard,) = (limits[name] for name in limits if getattr(resource, name) == what)
        assert hard == resource.RLIM_INFINITY or hard >= needed


def test_the_kernel_is_told_of_it_too(sandbox: DockerSandbox) -> None:
    Session(sandbox).await_ready()
    lines = Path(f"/proc/{sandbox.pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert {status[name].strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {""}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert int(status["Seccomp_filters"]) == 2  # the engine's filter, and the one that bubblewrap's sandboxes have
    for kind in ("net", "pid", "ipc", "uts", "mnt"):
        own = Path(f"/proc/self/ns/{kind}").readlink()
        assert Path(f"/proc/{sandbox.pid}/ns/{kind}").readlink() != own


@pytest.mark.usefixtures("made")  # skips without an engine
def test_a_user_id_comes_back_once_an_engine_that_was_away_has_removed_the_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with contextlib.closing(Docker(settings_for("docker"))) as made:
        sandbox = made.start()
        with monkeypatch.context() as away:
            away.setattr(made, "client", APIClient("unix:///nothing-is-here", version="1.41"))
            sandbox.end()
        assert made._not_removed == {sandbox.name}
        assert len(made._user_ids._taken) == 1  # it may still run
        made._remove_again()
        assert not made._not_removed
        assert not made._user_ids._taken
        assert not made._uids


def test_a_container_that_an_engine_made_too_late_is_removed_before_the_next_start(
    made: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = f"{leftovers.OWNER}={leftovers.labels()[leftovers.OWNER]}"
    with contextlib.closing(Docker(settings_for("docker"))) as other:
        create = other.client.create_container_from_config

        def create_late(*arguments: Any, **options: Any) -> None:
            create(*arguments, **options)  # type: ignore[no-untyped-call]  # no stub
            raise ReadTimeout("read timeout=30")

        with monkeypatch.context() as slow:
            slow.setattr(other, "_channel", "socket")
            slow.setattr(other.client, "create_container_from_config", create_late)
            with pytest.raises(InfrastructureError, match="does not answer, to start a sandbox"):
                other.start()
        assert [found["State"] for found in _known(made, label=ours)].count("created") == 1
        other.start().end()
        assert not [found for found in _known(made, label=ours) if found["State"] == "created"]
        assert not other._user_ids._taken


def test_an_engine_that_hangs_is_waited_for_once_however_many_containers_are_to_be_removed(
    monkeypatch: pytest.MonkeyPatch, made: Docker
) -> None:
    asked = []

    def hang(name: str, **_: object) -> None:
        asked.append(name)
        raise ReadTimeout("read timeout=30")

    monkeypatch.setattr(made.client, "remove_container", hang)
    monkeypatch.setattr(made, "_not_removed", {"one", "two", "three"})
    with pytest.raises(InfrastructureError, match="does not answer, to remove a sandbox"):
        made.start()
    assert len(asked) == 1
    assert made._not_removed == {"one", "two", "three"}


def test_users_differ(made: Docker) -> None:
    with started(made) as one, started(made) as two, started(made) as three:
        users = {Path(f"/proc/{session.sandbox.pid}").stat().st_uid for session in (one, two, three)}
    assert len(users) == 3


_KILLED = """
import os, signal
from sandbox.backends.docker import Docker
from tests.backends import settings_for
sandbox = Docker(settings_for("docker")).start()
print(sandbox.name, flush=True)
os.kill(sandbox.pid, signal.SIGSTOP)  # or it would end by itself, with its channel
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.alone  # any start of the backend, in any process, removes the container
def test_what_a_killed_service_left_is_removed_at_the_next_start(made: Docker) -> None:
    mine = made.start()
    killed = subprocess.run([sys.executable, "-c", _KILLED], cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=False)
    name = killed.stdout.strip()
    try:
        assert killed.returncode == -signal.SIGKILL
        assert _known(made, name=name)
        Docker(settings_for("docker")).close()
        eventually(lambda: not _known(made, name=name))
        assert _known(made, name=mine.name)
    finally:
        mine.end()


def test_a_killed_service_leaves_nothing_that_runs(made: Docker) -> None:
    """Even without another start of the backend."""
    script = _KILLED.replace("os.kill(sandbox.pid, signal.SIGSTOP)", "")
    killed = subprocess.run([sys.executable, "-c", script], cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    eventually(lambda: not _known(made, name=killed.stdout.strip()))


_KILLED_GRADING = """
import os, signal, sys, threading
from sandbox.backends.docker import Docker
from sandbox.grading.session import Session
from tests.backends import settings_for
from tests.sandbox.contract.conftest import Grader
session = Session(Docker(settings_for("docker", docker_channel=sys.argv[1])).start())
Grader(session).load("async def grade(thread):\\n    while True: pass", timeout_s=60.0)
print(session.sandbox.name, flush=True)
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGKILL)).start()
list(session.grade(b'{"prompt": "a", "completion": "b"}\\n', 1))
"""


@pytest.mark.parametrize("over", ["socket", "attach"])
def test_a_service_that_is_killed_while_it_grades_leaves_nothing_that_runs(made: Docker, over: str) -> None:
    """Even if the grader has time left: the guest notices the kill before it has a record to send."""
    command = [sys.executable, "-c", _KILLED_GRADING, over]
    killed = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    eventually(lambda: not _known(made, name=killed.stdout.strip()))


@pytest.mark.parametrize(
    ("owner", "state", "age_s", "stale"),
    [
        (leftovers.labels()[leftovers.OWNER], "running", 0, False),
        (leftovers.labels()[leftovers.OWNER] + "1", "running", 0, True),  # another process with the same pid
        ("another-boot/4026531836/1/1", "running", 9999, False),
        ("another-boot/4026531836/1/1", "created", 10, False),
        ("another-boot/4026531836/1/1", "created", 9999, True),
        ("", "running", 9999, False),
        ("garbage", "exited", 9999, True),
    ],
    ids=["ours", "of our pid", "of another machine", "being made there", "left there", "nobody's", "unreadable"],
)
def test_whose_a_container_is(owner: str, state: str, age_s: float, stale: bool) -> None:
    told = {"Labels": {leftovers.OWNER: owner}, "State": state, "Created": time.time() - age_s}
    assert leftovers.is_stale(told) is stale


@pytest.fixture
def repository(made: Docker, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A unique name for images, because other tests may run sandboxes from the usual one."""
    name = f"gradebox-test-{secrets.token_hex(4)}"
    monkeypatch.setattr(images, "REPOSITORY", name)
    yield name
    for tag in _tags(made, name):
        made.client.remove_image(tag, force=True)


@pytest.fixture
def built(tmp_path: Path) -> image.Image:
    """A small image, for tests that run nothing in it."""
    for name in ("python-now", "guest-now"):
        (tmp_path / name / "usr").mkdir(parents=True)
    return image.Image(tmp_path / "python-now", tmp_path / "guest-now")


def test_an_image_that_somebody_removed_is_imported_again(repository: str, made: Docker) -> None:
    with contextlib.closing(Docker(settings_for("docker"))) as other:
        other.start().end()
        (name,) = _tags(made, repository)
        eventually(lambda: not _known(made, ancestor=name))
        made.client.remove_image(name)
        other.start().end()
        assert _tags(made, repository) == [name]


def test_images_of_earlier_versions_go(
    repository: str, made: Docker, monkeypatch: pytest.MonkeyPatch, built: image.Image
) -> None:
    earlier = image.Image(built.root.with_name("python-earlier"), built.guest)
    earlier_name = images.name_of(earlier)
    images.ensure(made.client, built)
    made.client.tag(images.name_of(built), repository, earlier_name.partition(":")[2])
    made.client.remove_image(images.name_of(built))
    images.ensure(made.client, built)  # less than a day later
    assert set(_tags(made, repository)) == {earlier_name, images.name_of(built)}
    made.client.remove_image(images.name_of(built))
    monkeypatch.setattr(images, "_KEPT", timedelta(seconds=-60))
    images.ensure(made.client, built)
    assert _tags(made, repository) == [images.name_of(built)]


def test_an_image_that_lost_its_name_to_a_second_import_goes_too(
    repository: str, made: Docker, monkeypatch: pytest.MonkeyPatch, built: image.Image
) -> None:
    name = images.ensure(made.client, built)
    (first,) = made.client.images(repository, quiet=True)
    (built.root / "usr" / "other").touch()
    images._import(made.client, built, name.partition(":")[2])  # as another process does that imports meanwhile
    assert first in made.client.images(quiet=True, filters={"dangling": True})
    monkeypatch.setattr(images, "_KEPT", timedelta(seconds=-60))
    images._remove_old(made.client, name)
    assert first not in made.client.images(quiet=True, all=True)
    assert _tags(made, repository) == [name]


def _tags(made: Docker, repository: str) -> list[str]:
    return [tag for found in made.client.images(repository) for tag in found["RepoTags"] or []]


def test_without_an_engine_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    with pytest.raises(IsolationUnavailable, match="DOCKER_HOST"):
        Docker(settings_for("docker"))


@pytest.mark.parametrize(
    ("setting", "name"), [("docker_image", "gradebox-nowhere:1"), ("docker_runtime", "no-such-runtime")]
)
def test_an_image_or_runtime_that_is_not_there_is_named(made: Docker, setting: str, name: str) -> None:
    ours = f"{leftovers.OWNER}={leftovers.labels()[leftovers.OWNER]}"  # containers of other tests may be running
    other = Docker(settings_for("docker", **{setting: name}))
    with contextlib.closing(other), pytest.raises(IsolationUnavailable, match=name):
        prove(other)
    assert not [found for found in _known(made, label=ours) if found["State"] != "running"]


def test_where_no_socket_can_be_mounted_the_stream_is_used(made: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates an engine on another machine: the socket is not mounted, so the guest does not connect."""
    monkeypatch.setattr(backend, "_CONNECT_S", 2.0)
    monkeypatch.setattr(policy.Container, "_mounts", lambda _: [])
    other = Docker(settings_for("docker", docker_channel="auto"))
    with contextlib.closing(other):
        for _ in range(2):
            with started(other) as session:
                assert not session.sandbox.takes_descriptors
                session.await_ready()
        began = time.monotonic()
        again = other.start()
        assert not again.takes_descriptors
        assert time.monotonic() - began < 2.0, "the third sandbox waited for a socket"
        again.end()


def test_a_socket_that_failed_once_is_tried_again(made: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Docker(settings_for("docker", docker_channel="auto"))
    with contextlib.closing(other):
        with monkeypatch.context() as patch:
            patch.setattr(backend, "_CONNECT_S", 1.0)
            patch.setattr(policy.Container, "_mounts", lambda _: [])
            other.start().end()
        again = other.start()
        assert again.takes_descriptors
        again.end()


def test_where_control_groups_are_not_seen_the_engine_is_asked(made: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "of_process", lambda _: None)
    with started(made) as session:
        grader = Grader(session).load(memory_mb=96, timeout_s=20.0)
        assert isinstance(session.sandbox, DockerSandbox)
        told = made.client.inspect_container(session.sandbox.name)["HostConfig"]
        assert told["Memory"] == told["MemorySwap"] == (96 + 48) << 20
        assert not session.sandbox.ran_out_of_memory()
        grader.score(TOGETHER)
        assert session.sandbox.ran_out_of_memory()


def test_nobody_else_can_come_in_the_guests_place(tmp_path: Path) -> None:
    with channel.Listener(tmp_path) as listener:
        assert oct(listener.path.parent.stat().st_mode & 0o777) == "0o700"
        with socket.socket(socket.AF_UNIX) as intruder:
            intruder.connect(str(listener.path))
            with pytest.raises(InfrastructureError, match=f"process {os.getpid()}"):
                listener.accept(1, 1.0)
    assert list(tmp_path.iterdir()) == []


def test_nobody_comes(tmp_path: Path) -> None:
    with channel.Listener(tmp_path) as listener, pytest.raises(InfrastructureError, match="did not connect"):
        listener.accept(0, 0.05)


def test_a_sockets_folder_may_have_a_long_name(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    with channel.Listener(folder) as listener:
        assert listener.path.is_socket()


def test_folders_of_killed_services_are_removed_when_they_are_old(tmp_path: Path) -> None:
    for name, age_s in (("gradebox-channel-old", 10_000), ("gradebox-channel-new", 1), ("other", 10_000)):
        (tmp_path / name).mkdir()
        then = time.time() - age_s
        os.utime(tmp_path / name, (then, then))
    channel.remove_stale(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"gradebox-channel-new", "other"}


def test_a_channel_that_cannot_be_made_is_told_as_no_sandbox(tmp_path: Path) -> None:
    with (
        pytest.raises(InfrastructureError, match=r"could not start a sandbox: .*No such file"),
        backend._engine("start a sandbox"),
        channel.Listener(tmp_path / "missing"),
    ):
        pytest.fail("there is no such folder")
