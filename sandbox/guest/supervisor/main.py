"""Pid 1 of a sandbox. Only this process holds the host's channel. It enforces deadlines and never runs user code."""

import _socket as socket  # the C module: importing `socket` costs a cold sandbox 3 ms
import gc
import os
import select
import signal
import sys
from struct import Struct
from typing import NoReturn

from sandbox.guest.child.thread_decoder import hidden_decoder
from sandbox.guest.kernel import lockdown, scratch, signals
from sandbox.guest.kernel.open_fds import renew
from sandbox.guest.protocol.channel import Channel, receive, take_channel
from sandbox.guest.protocol.chunk import SentChunk
from sandbox.guest.protocol.fields import encode
from sandbox.guest.protocol.frames import (
    CHECK,
    CHUNK,
    CRASHED,
    DONE,
    FRAME,
    GRADE,
    GRADE_SHARED,
    LOAD,
    LOADED,
    NO_PROCESS,
    NOT_LOADED,
    ORPHANED,
    READY,
    RECORDS,
    RESET,
    STOPPED,
    TAINTED,
    CheckResult,
    pack_check,
)
from sandbox.guest.protocol.grader_limits import BATCH, COMPLETION, LIMITS, GraderLimits
from sandbox.guest.protocol.records import Records, pack_records
from sandbox.guest.supervisor.chunk_run import ChunkRun, Crashed, Orphaned, how_it_ended, too_many_files
from sandbox.guest.supervisor.processes import ChildHandle, GraderProcesses, LoadResult, Lost, NoProcess
from sandbox.guest.template.fork_per_line import NO_STATUS
from sandbox.guest.template.process import SpareTemplate, start_ahead
from sandbox.guest.warmup.dry_run import rehearse
from sandbox.guest.warmup.imports import preload

_LOOK_MS = 50.0
_SOON_S = 0.005  # a host that needs the sandbox now sends a request within this time; work ahead waits for it
_RIGHT = Struct("i")
_SHARES = (
    b"the module body leaves files, pipes or sockets, by which completions could reach each other, so it runs anew for "
    b"each completion: make them inside `grade`, that is faster"
)
_KINDS: dict[type[Exception], int] = {Orphaned: ORPHANED, Crashed: CRASHED, NoProcess: NO_PROCESS}


class Supervisor:
    """Serves requests of the host, one after the other."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._processes: GraderProcesses | None = None
        self._waiting: SpareTemplate | None = None
        self._child: ChildHandle | None = None
        self._limits: GraderLimits
        self._resting = False
        self._unused = False
        self._shared = -1

    def serve(self, is_rehearsed: bool) -> NoReturn:
        """Serves until the host closes the channel. The sandbox ends with this process."""
        self._send_frame(READY, bytes([min(lockdown.landlock_abi(), 255)]))
        preload(self._is_wanted)
        decoder = hidden_decoder()  # before any code of a grader, which may change what the import needs
        if not is_rehearsed and not self._is_wanted():
            rehearse(decoder)
            gc.collect()
        gc.freeze()  # garbage collections of a template then skip all this
        gc.enable()
        if not self._is_wanted(_SOON_S if is_rehearsed else 0):
            self._waiting = start_ahead()
        while True:
            try:
                self._wait()
                kind, length = FRAME.unpack(self._receive_head())
                payload = receive(self._channel, length)
                if kind == LOAD:
                    self._load(payload)
                elif kind in (GRADE, GRADE_SHARED):
                    self._grade(kind, payload)
                elif kind == RESET:
                    self._reset()
            except (Lost, scratch.NotClean) as problem:
                kind = _KINDS.get(type(problem), TAINTED)
                self._send_frame(kind, encode(str(problem) or type(problem).__name__, 1024))

    def _is_wanted(self, within_s: float = 0) -> bool:
        return bool(select.select([self._channel], [], [], within_s)[0])

    def _wait(self) -> None:
        """Waits for a message of the host.

        Threads that a module body started may create files meanwhile, so their number is checked. Usually the template
        is stopped or has ended, no such thread can run, and nothing is checked: an unused sandbox must cost nothing.
        """
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        processes = self._processes
        if processes is not None and (self._resting or not processes.alive):
            processes = None
        while not poll.poll(None if processes is None else _LOOK_MS):
            if processes is not None and processes.crowded():
                processes.end()
                raise scratch.NotClean(too_many_files(self._limits))
            if processes is not None and self._unused:
                processes.rest(True)
                self._resting, processes = True, None

    def _receive_head(self) -> bytes:
        """Receives the head of a frame, and the descriptor of new shared memory if one comes with it."""
        head, ancillary, _, _ = self._channel.recvmsg(FRAME.size, socket.CMSG_LEN(4), socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                if self._shared >= 0:
                    os.close(self._shared)
                (self._shared,) = _RIGHT.unpack(data)
        return head + receive(self._channel, FRAME.size - len(head))

    def _send_frame(self, kind: int, payload: bytes = b"") -> None:
        self._channel.sendall(FRAME.pack(kind, len(payload)) + payload)

    def _load(self, payload: bytes) -> None:
        self._limits = GraderLimits(*LIMITS.unpack_from(payload))
        waiting, self._waiting = self._waiting, None
        self._processes = GraderProcesses(self._limits, payload[LIMITS.size :], self._shared, waiting)
        loaded = self._processes.load()
        for check in loaded.checks:
            self._send_frame(CHECK, check)
        if not loaded.done:
            if failure := self._what_stopped(loaded):
                self._send_frame(CHECK, pack_check(failure))
            self._send_frame(NOT_LOADED, STOPPED if failure else b"")
            return
        self._limits = self._limits._replace(isolation=loaded.isolation)
        told = loaded.told
        if self._processes.shares and loaded.isolation == COMPLETION:
            told += b"\n" + _SHARES
        self._send_frame(LOADED, bytes([loaded.isolation]) + told)

    def _what_stopped(self, loaded: LoadResult) -> CheckResult | None:
        """The result of a check that could not report its failure: the one after the last check that was received."""
        number = len(loaded.checks)
        seconds = self._limits.load_ms / 1000
        if loaded.crowded:
            return CheckResult(number, False, 0, 0, 0, too_many_files(self._limits), "")
        if number > 3 or (not loaded.timed_out and loaded.status == NO_STATUS):
            return None
        if loaded.timed_out:
            message = (
                f"it did not end within {seconds:g} s. Look for an endless loop or a wait at module level."
                if number == 3
                else f"the source takes longer than {seconds:g} s to compile: take it apart."
            )
        else:
            message = f"while it ran, {how_it_ended(loaded.status).message}"
        return CheckResult(number, False, 0, 0, 0, message, "")

    def _grade(self, kind: int, payload: bytes) -> None:
        assert self._processes is not None
        self._wake()
        count, length = CHUNK.unpack_from(payload)
        chunk = SentChunk(count, length, payload[CHUNK.size :] if kind == GRADE else None, self._shared)
        run = ChunkRun(self._processes, self._limits, chunk, self._pass_on, self._end_with_host)
        child, self._child = self._child, None
        self._child = run.grade(child)
        self._send_frame(DONE)

    def _end_with_host(self) -> None:
        """Ends the sandbox if the host has closed the channel: nothing else ends a container of a killed service."""
        closed = select.poll()
        closed.register(self._channel, 0)  # POLLHUP is always reported
        if closed.poll(0):
            os._exit(0)

    def _pass_on(self, records: Records) -> None:
        self._send_frame(RECORDS, pack_records(records))

    def _wake(self) -> None:
        self._unused = False
        if self._resting and self._processes is not None:
            self._processes.rest(False)
            self._resting = False

    def _reset(self) -> None:
        """Discards the state of the last batch: the child, the processes that it started, and its scratch files."""
        assert self._processes is not None
        self._wake()
        if self._child is not None:
            self._child.close()
            self._child = None
        if self._processes.shares:
            raise scratch.NotClean("the module body left files or descriptors, which the batch may have changed")
        if not self._processes.alive:
            raise Lost("the process that had loaded the grader has ended")
        self._processes.sweep()
        self._processes.shared = self._shared
        scratch.clean()
        self._child = self._processes.start_child() if self._limits.isolation == BATCH else None
        self._unused = True  # the template is stopped if no request follows soon; the child starts up until then
        self._send_frame(DONE)


def begin() -> None:
    """Does the first steps of a process of the guest."""
    signals.forget_inherited()
    os.umask(0o022)  # whatever that of the service is
    # As pid 1, a process ignores signals from inside unless it has a handler, and Python installs one for SIGINT.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.pop("LD_BIND_NOW", None)  # the loader has read it
    lockdown.refuse_cores()  # before the filter, which refuses to change this limit


def hide() -> None:
    """Replaces the standard descriptors by /dev/null, and protects the memory of this process from other processes."""
    renew(0, 1, 2)
    lockdown.hide()


def main() -> None:
    """The entry point of a sandbox."""
    begin()
    channel = take_channel(sys.argv[1] if len(sys.argv) > 1 else "")
    hide()
    Supervisor(channel).serve(is_rehearsed=False)
