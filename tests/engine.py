"""A Docker engine for one test, which may kill it."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import docker
import pytest
from docker.errors import DockerException, NotFound

from tests.backends import NEEDED

_DOCKERD = Path(__file__).parent.parent / "scripts" / "dockerd"
_OWN_MOUNTS = ("unshare", "--mount", "--propagation", "slave")  # other tests check for mounts that are left


class Engine:
    """Keeps all files of the engine in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.host = f"unix://{folder}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the engine, also after a kill, and waits until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_OWN_MOUNTS, _DOCKERD, "serve", self._folder], stdout=log, stderr=log, start_new_session=True
            )
        for _ in range(600):
            with suppress(DockerException):
                docker.DockerClient(self.host).close()
                return
            time.sleep(0.05)
        raise AssertionError((self._folder / "log").read_text()[-2000:])

    def containers(self) -> dict[str, int]:
        """The process id of each container, by the container's id."""
        found: dict[str, int] = {}
        with closing(docker.APIClient(self.host)) as client:
            for container in client.containers(all=True):
                with suppress(NotFound):  # removed after it was listed
                    found[container["Id"]] = int(client.inspect_container(container["Id"])["State"]["Pid"])
        return found

    def kill(self, containers: bool = False) -> None:
        """Kills the engine at once. Its containers live until it starts again, unless they are killed too."""
        assert self._process is not None
        inside = self.containers().values() if containers else ()
        self._process.kill()
        self._process.wait()
        (self._folder / "pid").unlink(missing_ok=True)
        for pid in inside:
            with suppress(ProcessLookupError):
                if pid:  # 0 if the container does not run; kill(0) would kill this test's process group
                    os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """Stops the engine with SIGTERM."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)


@contextmanager
def engine() -> Iterator[Engine]:
    """Starts a Docker engine and yields it. Skips the test if no engine can be started."""
    if os.geteuid() != 0 or shutil.which("dockerd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        why = "an engine of its own needs root and `dockerd`"
        if "docker" in NEEDED:
            pytest.fail(why)
        pytest.skip(why)
    with TemporaryDirectory(prefix="gradebox-engine-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        running = Engine(Path(folder))
        running.start()
        try:
            yield running
        finally:
            running.stop()
