"""Starts and ends the containers."""

import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from requests.exceptions import RequestException

from sandbox import image
from sandbox.backends.docker import channel, images, leftovers
from sandbox.backends.docker.channel import Attached, Listener
from sandbox.backends.docker.policy import CHANNEL, Container
from sandbox.errors import InfrastructureError, IsolationUnavailable
from sandbox.guest.protocol.channel import STREAMS
from sandbox.guest.protocol.frames import FILTER, FRAME
from sandbox.kernel import seccomp
from sandbox.kernel.cgroups import Cgroup, of_process
from sandbox.kernel.user_ids import USER_IDS, UserIds
from sandbox.limits import MIB
from sandbox.settings import SandboxSettings
from sandbox.shared_folders import Seen

_ANSWER_S = 30  # for the engine to answer one request
_REMOVED_S = 5  # for it to remove a dead container without a request
_CONNECT_S = 15.0  # for a guest to start and connect
_SOCKETS_TRIED = 2  # a busy machine may fail once; an engine on another machine fails always
_TOLD_S = 0.2  # for the engine to receive an event of the kernel
_MAPPED_UIDS = range(1000, 65_000)  # the user ids of an engine with user namespaces
_GONE = (404, 409)  # removed, or being removed

_HOW = "Start one (`systemctl start docker`, `dockerd`), let this user reach it, or name it with DOCKER_HOST"

_log = logging.getLogger(__name__)


@contextmanager
def _engine(doing: str) -> Iterator[None]:
    try:
        yield
    except APIError as error:
        raise InfrastructureError(f"Docker could not {doing}: {error.explanation or error}") from error
    except (DockerException, RequestException) as error:
        raise InfrastructureError(f"Docker does not answer, to {doing}: {error}") from error
    except OSError as error:  # on this machine: no space for the channel's socket, no descriptors left
        raise InfrastructureError(f"this machine could not {doing}: {error}") from error


class DockerSandbox:
    """One running container."""

    def __init__(self, client: docker.APIClient, name: str, seen: Seen, forget: Callable[[str, bool], None]) -> None:
        self.channel: socket.socket
        self.takes_descriptors = False
        self.pid = 0
        self.name = name
        self.seen = seen
        self._client = client
        self._forget = forget
        self._stream: Attached | None = None
        self._pidfd = -1
        self._cgroup: Cgroup | None = None
        self._kills = 0
        self._since = int(time.time())

    @property
    def bounds_memory(self) -> bool:
        """Whether this process can write the container's control group without asking the engine."""
        return self._cgroup is not None and self._cgroup.writable

    def hold(self, container: str, pid: int) -> None:
        """Opens a pidfd and the control group of the container's pid 1, if that process is visible from here."""
        with suppress(OSError):
            if container in Path(f"/proc/{pid}/cgroup").read_text():
                self._pidfd = os.pidfd_open(pid)
                self.pid = pid
                self._cgroup = of_process(pid)

    def take_channel(self, over: socket.socket | Attached) -> None:
        """Takes the channel, and has the guest install the filter that bubblewrap's sandboxes have from the start."""
        if isinstance(over, Attached):
            self._stream, self.channel = over, over.channel
        else:
            self.channel, self.takes_descriptors = over, True
        program = seccomp.program()
        try:
            self.channel.sendall(FRAME.pack(FILTER, len(program)) + program)
        except OSError as error:
            raise InfrastructureError(f"a sandbox ended as it started: {error}") from error

    def allow_memory(self, mebibytes: int) -> None:
        """Limits memory without swap: in the container's control group, or by a request to the engine."""
        if self._cgroup is not None and self._cgroup.writable:
            with suppress(FileNotFoundError):  # it has ended, which the channel will show
                self._cgroup.allow_memory(mebibytes)
            return
        with _engine("bound a sandbox's memory"):
            self._client.update_container(self.name, mem_limit=mebibytes * MIB, memswap_limit=mebibytes * MIB)

    def ran_out_of_memory(self) -> bool:
        """Whether a process was killed for lack of memory since the last call."""
        kills = self._kills
        if self._cgroup is not None:
            with suppress(OSError):
                more = self._cgroup.ran_out_of_memory()
                self._kills += more
                return more
        # The group was removed with its last process, but the engine has the event.
        with suppress(DockerException, RequestException):
            self._kills = max(kills, self._kills_reported())
        return self._kills > kills

    def _kills_reported(self) -> int:
        time.sleep(_TOLD_S)
        return len(self._events("oom"))

    def _events(self, kind: str) -> list[dict[str, Any]]:
        wanted = {"container": self.name, "event": kind}
        until: Any = f"{time.time():.9f}"  # not whole seconds as in the stubs: the engine would wait for those
        return list(self._client.events(since=self._since, until=until, filters=wanted, decode=True))

    def how_it_ended(self) -> str:
        """A sentence to be added to a message. Empty if it runs, or the engine does not answer. The engine has removed
        a container that ended, but has the event.
        """
        with suppress(DockerException, RequestException, KeyError):  # another engine may give no status
            for event in self._events("die"):
                status = int(event["Actor"]["Attributes"]["exitCode"])
                is_signal = 128 < status < 128 + signal.NSIG
                return f". It ended with status {status}" + (f", by signal {status - 128}" if is_signal else "")
        return ""

    def end(self) -> None:
        """Kills everything inside, and has the container removed."""
        if self._stream is not None:
            self._stream.close()
        elif hasattr(self, "channel"):
            self.channel.close()
        self._forget(self.name, self._kill())

    def _kill(self) -> bool:
        """Kills pid 1 directly, if permitted, because the engine may be unavailable. Returns whether it is dead."""
        if self._pidfd < 0:
            return False
        try:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        else:
            return True
        finally:
            os.close(self._pidfd)
            self._pidfd = -1


class Docker:
    """Starts sandboxes in the engine that `DOCKER_HOST` names, or in this machine's."""

    name = "docker"

    def __init__(self, settings: SandboxSettings) -> None:
        """Raises IsolationUnavailable if there is no engine, or it cannot do what safety needs."""
        self._settings = settings
        self._not_removed: set[str] = set()
        self._uids: dict[str, int] = {}  # the user id of each container
        seccomp.program()
        try:
            self.client: docker.APIClient = docker.from_env(timeout=_ANSWER_S).api
            # Otherwise each request would look for proxies in the environment, which a thread may change meanwhile.
            self.client.trust_env = False
            self.information: dict[str, Any] = self.client.info()
            self._remove_stale()
        except (DockerException, RequestException) as error:
            raise IsolationUnavailable(f"no Docker engine answers: {error}. {_HOW}") from error
        self._channel = settings.docker_channel
        self._sockets_failed = 0
        mapped = any("name=userns" in option for option in self.information.get("SecurityOptions") or [])
        ids = _MAPPED_UIDS if mapped else range(settings.first_uid, settings.first_uid + USER_IDS)
        self._user_ids = UserIds(settings.image_dir, ids)
        self._image = ""  # imported when the first sandbox is started
        channel.remove_stale(settings.docker_socket_dir)

    def close(self) -> None:
        """Removes the containers that could not be removed before."""
        with suppress(DockerException, RequestException):
            self._remove_again()
        self.client.close()
        self._user_ids.close()

    def start(self, environment: Path | None = None) -> DockerSandbox:
        """Starts a new sandbox, whose supervisor is about to report that it is ready."""
        with _engine("remove a sandbox that has ended"):
            self._remove_again()
        if self._channel != "auto":
            return self._start(self._channel, environment)
        try:
            sandbox = self._start("socket", environment)
            self._channel = "socket"
        except InfrastructureError as error:
            sandbox = self._start("attach", environment)
            self._sockets_failed += 1
            if self._sockets_failed == _SOCKETS_TRIED:
                self._channel = "attach"
            _log.warning("the guest did not connect to a mounted socket, using the engine's slower stream: %s", error)
        return sandbox

    def _start(self, over: str, environment: Path | None) -> DockerSandbox:
        with _engine("start a sandbox"):
            try:
                return self._start_from_image(over, environment)
            except ImageNotFound:  # the image was removed from the engine
                if self._settings.docker_image:
                    raise
                self._image = ""
                return self._start_from_image(over, environment)

    def _start_from_image(self, over: str, environment: Path | None) -> DockerSandbox:
        if not self._image:
            own = self._settings.docker_image
            self._image = own or images.ensure(self.client, image.build(self._settings.image_dir))
        if over == "socket":
            with Listener(self._settings.docker_socket_dir) as listener:
                return self._run(CHANNEL, listener, environment)
        return self._run(STREAMS, None, environment)

    def _run(self, where: str, listener: Listener | None, environment: Path | None) -> DockerSandbox:
        seen = Seen(*([environment] if environment else []))
        name = f"gradebox-{secrets.token_hex(6)}"
        uid = self._uids[name] = self._user_ids.take()
        try:
            container = self._container(uid, where, listener.path if listener else None, environment)
            self.client.create_container_from_config(container.config(), name=name)  # type: ignore[no-untyped-call]  # no stub
        except BaseException:
            self._not_removed.add(name)  # an engine that is slow may still create it
            raise
        sandbox = DockerSandbox(self.client, name, seen, self._forget)
        try:
            stream = None if listener else self._attach(name)
            self.client.start(name)
            found = self.client.inspect_container(name)
            sandbox.hold(found["Id"], found["State"]["Pid"])
            if listener is not None:
                sandbox.take_channel(listener.accept(sandbox.pid, _CONNECT_S))
            elif stream is not None:
                sandbox.take_channel(stream)
        except InfrastructureError as error:
            try:
                raise InfrastructureError(f"{error}{sandbox.how_it_ended()}") from error
            finally:
                sandbox.end()
        except BaseException:
            sandbox.end()
            raise
        return sandbox

    def _attach(self, name: str) -> Attached:
        stream = self.client.attach_socket(name, {"stdin": 1, "stdout": 1, "stream": 1})
        return Attached(getattr(stream, "_sock", stream))  # docker-py wraps the socket of a plain connection

    def _container(self, uid: int, where: str, socket_path: Path | None, environment: Path | None) -> Container:
        settings = self._settings
        bounds = self.information.get("CpuCfsQuota", False)
        processors = min(settings.docker_cpus, float(self.information["NCPU"])) if bounds else 0.0
        return Container(
            self._image,
            uid,
            where,
            socket_path,
            settings.docker_runtime,
            processors,
            settings.scratch_bytes,
            settings.scratch_files,
            settings.processes,
            leftovers.labels(),
            environment,
        )

    def _forget(self, name: str, dead: bool) -> None:
        with suppress(DockerException, RequestException):
            if self._remove(name, dead):
                self._free(name)
                return
        self._not_removed.add(name)  # it may still run, as its user

    def _free(self, name: str) -> None:
        self._not_removed.discard(name)
        uid = self._uids.pop(name, None)
        if uid is not None:
            self._user_ids.give_back(uid)

    def _remove(self, name: str, dead: bool = False) -> bool:
        """Removes a container, and returns whether it is removed. Raises an exception if the engine does not answer.

        The engine removes a dead container without a request: then this only waits for that.
        """
        try:
            if dead:
                self.client.wait(name, timeout=_REMOVED_S, condition="removed")
            else:
                self.client.remove_container(name, force=True, v=True)
        except APIError as error:
            return error.status_code in _GONE
        return True

    def _remove_again(self) -> None:
        """Removes what could not be removed before. Without an answer it stops: each further request would wait too."""
        for name in [*self._not_removed]:
            if self._remove(name):
                self._free(name)

    def _remove_stale(self) -> None:
        for found in self.client.containers(all=True, filters={"label": f"{leftovers.LABEL}=1"}):
            if leftovers.is_stale(found):
                self._forget(found["Id"], dead=False)
