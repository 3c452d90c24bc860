"""Starts sandboxes on this machine.

bubblewrap makes namespaces and mounts for each sandbox, and a process that is forked from the zygote enters them. If
there can be no zygote, a new interpreter is started in them, which takes 25 ms longer.
"""

import logging
import os
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from sandbox import image, limits
from sandbox.backends.base import COMMAND
from sandbox.backends.bubblewrap import bwrap_run
from sandbox.backends.bubblewrap.bwrap_run import START_S, BwrapRun
from sandbox.backends.bubblewrap.first_process import FirstProcess
from sandbox.backends.bubblewrap.sandbox import BubblewrapSandbox
from sandbox.backends.bubblewrap.zygote import Zygote
from sandbox.errors import InfrastructureError, IsolationUnavailable, SandboxError
from sandbox.kernel import hard_limits, memory_monitor, seccomp
from sandbox.kernel.cgroups import Cgroup, Cgroups
from sandbox.kernel.user_ids import USER_IDS, UserIds
from sandbox.settings import SandboxSettings
from sandbox.shared_folders import Seen

_DYING_MS = 100  # from the first sign of a zygote's end to its exit
_OUTSIDE = 1  # outside its pid namespace: the process that waits for pid 1, or forks it

_log = logging.getLogger(__name__)


class Bubblewrap:
    """Starts sandboxes on this machine.

    Attributes:
        zygote: the process that sandboxes are forked from; None if each one starts an interpreter.
        why_no_zygote: why there is none.
    """

    name = "bubblewrap"

    def __init__(self, settings: SandboxSettings) -> None:
        """Raises IsolationUnavailable if a layer that safety needs is missing."""
        hard_limits.check(settings.processes)
        self._settings = settings
        self._program = bwrap_run.find("bwrap", "bubblewrap")
        self._is_root = os.geteuid() == 0
        self._setpriv = bwrap_run.find("setpriv", "util-linux") if self._is_root else ""
        seccomp.program()
        self._image = image.build(settings.image_dir)
        # As root, each sandbox gets a separate user id, because the kernel does not count the processes of root.
        ids = range(settings.first_uid, settings.first_uid + USER_IDS)
        self._user_ids = UserIds(settings.image_dir, ids) if self._is_root else None
        self.cgroups = Cgroups.find()
        if self.cgroups is None:
            memory_monitor.check()
        else:
            self.cgroups.remove_stale()
        self._sessions = self.cgroups is not None and self.cgroups.share_processors
        self._monitor = memory_monitor.Monitor()
        self._monitor.start()
        self._replacing = threading.Lock()
        self._closed = False
        self.zygote: Zygote | None = None
        self.why_no_zygote = "" if settings.zygote else "switched off"
        if settings.zygote:
            self._try_zygote()

    def _try_zygote(self) -> None:
        try:
            if Path(self._program).stat().st_mode & stat.S_ISUID:  # then nothing shows when everything is made
                raise IsolationUnavailable(f"{self._program} is setuid")
            self._nsenter = "" if self._is_root else bwrap_run.find("nsenter", "util-linux")
            self.zygote = Zygote(self._program, self._image)
            self._try()
        except (SandboxError, OSError) as error:
            if self.zygote is not None:
                self.zygote.end()
                self.zygote = None
            self.why_no_zygote = str(error)
            _log.info("each sandbox starts a new interpreter, which takes longer: %s", error)

    def _try(self) -> None:
        sandbox = self.start()
        try:
            sandbox.channel.settimeout(START_S)
            if not sandbox.channel.recv(1):
                raise InfrastructureError("a sandbox that was forked has ended at once")
        finally:
            sandbox.end()

    def close(self) -> None:
        """Ends the monitor and the zygote, and with it all sandboxes that were forked from it."""
        self._monitor.end()
        with self._replacing:
            self._closed = True
            if self.zygote is not None:
                self.zygote.end()
        if self._user_ids is not None:
            self._user_ids.close()

    def start(self, environment: Path | None = None) -> BubblewrapSandbox:
        """Starts a new sandbox, whose supervisor is about to report that it is ready."""
        try:
            return self._start(environment)
        except InfrastructureError:
            if not self._renew_image() and (self.zygote is None or not self.zygote.has_ended(_DYING_MS)):
                raise
        return self._start(environment)  # from a new zygote

    def _renew_image(self) -> bool:
        """Makes the image again if it was removed, and ends the zygote with its sandboxes, which lack its files.

        Returns False if the image is there.
        """
        with self._replacing:
            if self._closed or (self._image.root.is_dir() and self._image.guest.is_dir()):
                return False
            _log.warning("the sandboxes' copy of the interpreter was removed: making it again")
            self._image = image.build(self._settings.image_dir)
            if self.zygote is not None:
                self.zygote.end()
            return True

    def _start(self, environment: Path | None) -> BubblewrapSandbox:
        make = self._fork if self.zygote else self._execute
        with ExitStack() as failing:
            try:
                uid = self._user_ids.take() if self._user_ids else 0
                failing.callback(self._give_back, uid)
                cgroup = self._make_cgroup()
                if cgroup is not None:
                    failing.callback(cgroup.remove)
                seen = Seen(self._image.root, self._image.guest, *([environment] if environment else []))
                ours, theirs = socket.socketpair()
                failing.callback(ours.close)
                with theirs:
                    first = make(uid, theirs, cgroup, environment)
            except OSError as error:
                raise InfrastructureError(f"a sandbox could not be started: {error}") from error
            failing.pop_all()
        return BubblewrapSandbox(ours, first, cgroup, self._monitor, seen, lambda: self._give_back(uid))

    def _give_back(self, uid: int) -> None:
        if self._user_ids is not None:
            self._user_ids.give_back(uid)

    def _make_cgroup(self) -> Cgroup | None:
        if self.cgroups is None:
            return None
        processes = self._settings.processes + limits.OWN_PROCESSES + _OUTSIDE
        return self.cgroups.make(processes, self._settings.cpus)

    def _execute(
        self, uid: int, channel: socket.socket, cgroup: Cgroup | None, environment: Path | None
    ) -> FirstProcess:
        """Starts a new interpreter in new namespaces. It ends when its channel closes, as by the death of this process.

        With `--die-with-parent`, bubblewrap could die before it lets its first process go on, which would wait forever.
        """
        command = bwrap_run.without_cores(self._command(uid, environment, bwrap_run.with_read_only_null))
        built = self._build(command if cgroup is None else cgroup.joined(command), channel)
        try:
            built.go()
            if not bwrap_run.is_read_only(built.pid, "/dev/null"):
                raise InfrastructureError("a sandbox is not isolated: it can change /dev/null")
        except BaseException:
            built.end()
            raise
        return built

    def _fork(self, uid: int, channel: socket.socket, cgroup: Cgroup | None, environment: Path | None) -> FirstProcess:
        """Forks the zygote. The copy enters the namespaces of a process that waits there until the copy has entered.

        When this process dies, the other ends of the waiting process's descriptors close, and it exits.
        """
        zygote = self._living_zygote()
        command = self._command(uid, environment)
        if not self._is_root:
            command = zygote.owned(self._nsenter, command)
        idle_end, unused_stdin = socket.socketpair()
        with idle_end, unused_stdin:
            built = self._build(command, unused_stdin)
            try:
                built.settle()
                return zygote.fork(uid, built, channel, cgroup, seccomp.program(self._sessions))
            finally:
                built.end()

    def _living_zygote(self) -> Zygote:
        with self._replacing:
            assert self.zygote is not None
            if self._closed:
                raise InfrastructureError("the service is stopping")
            if self.zygote.has_ended():
                self.zygote.end()
                self.zygote = Zygote(self._program, self._image)
            return self.zygote

    def _build(self, command: list[str], stdin: socket.socket) -> BwrapRun:
        filter_file = seccomp.program_file(self._sessions)
        try:
            return BwrapRun(command, COMMAND, stdin, filter_file)
        finally:
            os.close(filter_file)

    def _command(
        self, uid: int, environment: Path | None, prepared: Callable[[list[str]], list[str]] = list
    ) -> list[str]:
        # `nsenter --setuid` is 0.5 ms faster, but continues if it cannot give up the groups of the service.
        become = [self._setpriv, "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--"] if uid else []
        scratch = bwrap_run.scratch(self._settings.scratch_bytes)
        return [
            *become,
            *prepared([self._program, *bwrap_run.system(self._image, environment), *scratch, *bwrap_run.isolation()]),
        ]
