"""The host's side of one sandbox. It sends commands, and limits and checks everything that it receives."""

import mmap
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from time import monotonic, sleep
from typing import Literal, NamedTuple

from gradebox.asks.asking import MOST_NAMED, NAME_CHARACTERS
from sandbox.backends.base import Sandbox
from sandbox.errors import InfrastructureError
from sandbox.grader_source import GraderSource
from sandbox.grading.channel import Ended, SandboxChannel, Stopping
from sandbox.grading.processor_watch import LOOK_S, ProcessorWatch
from sandbox.grading.shared_memory import shared_memory
from sandbox.guest.protocol.chunk import SHARED_BYTES
from sandbox.guest.protocol.fields import Malformed
from sandbox.guest.protocol.frames import (
    CHECK,
    CHUNK,
    DONE,
    GRADE,
    GRADE_SHARED,
    LOAD,
    LOADED,
    NO_PROCESS,
    NOT_LOADED,
    READY,
    RECORDS,
    RESET,
    SHARE,
    STOPPED,
    CheckResult,
    unpack_check,
    unpack_loaded,
)
from sandbox.guest.protocol.grader_limits import BATCH, LIMITS, GraderLimits
from sandbox.guest.protocol.records import Records, unpack_records
from sandbox.kernel.memory_monitor import memory_of
from sandbox.kernel.usage import Starved
from sandbox.limits import MIB, SANDBOX_MIB

_LITTLE_BYTES = 64 * MIB  # below this, a page that processes share may be counted for each of them
_READY_S = 20.0
_MANY = 16  # with more ungraded lines than this, records are read several at once
_PAUSE_S = 0.004  # between two reads of their records
_SLACK_S = 5.0  # added to the sum of the guest's deadlines
_MEMORY = "all processes together wanted more memory than `memory_mb` allows: load less at module level, or raise it"
_FORGED = "the module body changed what is reported about the grader"
_GRACE_S = 2.0  # the guest's grace period for processes that do not exit at once

_ASK = re.compile(rf"(model|endpoint|grader):[^\x00-\x1f]{{1,{NAME_CHARACTERS}}}")


class Loaded(NamedTuple):
    """The results of the first four checks. `isolation` is None if one failed; `overdue`: the time for the checks had
    passed then. `doubtful`: loading ended, or waited most of that time, before a check reported a failure, so the cause
    may be outside. `asks` names what the grader may ask, such as `model:small-judge`, in alphabetical order. `groups`:
    each of its lines is a group.
    """

    checks: list[CheckResult]
    isolation: Literal["batch", "completion"] | None
    warnings: list[str]
    overdue: bool = False
    doubtful: bool = False
    asks: tuple[str, ...] = ()
    groups: bool = False


class Session:
    """One sandbox, which only ever holds the code of at most one grader.

    Attributes:
        starved: for the last records: set if the sandbox got too little processor time while they were waited for.
    """

    def __init__(self, sandbox: Sandbox, used: ExitStack | None = None) -> None:
        """`used` is closed once the sandbox has ended."""
        self.sandbox = sandbox
        self._used = used or ExitStack()
        self.source: GraderSource | None = None
        self.loaded: Loaded | None = None
        self.used_at = monotonic()
        self.landlock_abi = 0
        self._watch = ProcessorWatch(sandbox.pid)
        self._channel = SandboxChannel(sandbox.channel, self._watch)
        self.limits: GraderLimits
        self._shared: mmap.mmap | None = None
        self._unsettled = False
        self._ready = False
        self.starved: Starved | None = None

    def memory_bytes(self) -> int:
        """The memory that the sandbox holds, in bytes; its limit if this process cannot see it. 0 if it is ending."""
        if self.sandbox.pid:
            return memory_of(self.sandbox.pid, _LITTLE_BYTES)
        return (self.source.memory_mb + SANDBOX_MIB) * MIB if self.source else 0

    def await_ready(self) -> None:
        """Waits until the guest reports that it is ready. Raises InfrastructureError if it does not."""
        if self._ready:
            return
        try:
            kind, reported = self._channel.receive(monotonic() + _READY_S)
        except Ended as error:
            raise InfrastructureError(f"a sandbox did not start: {error}") from error
        if kind != READY:
            raise InfrastructureError(f"a sandbox did not start: its first message was of kind {kind}")
        self.landlock_abi = reported[0] if reported else 0
        self._ready = True

    def is_gone(self) -> bool:
        """Whether the sandbox has ended, according to its channel, or its files were removed."""
        return self._channel.is_closed() or not self.sandbox.seen.are_there()

    def _share(self, kind: int) -> None:
        """Shares new memory with the guest, in a frame of this kind."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        shared, reading = shared_memory()
        try:
            self._channel.send_descriptor(kind, reading)
        except Ended:
            shared.close()
            raise
        finally:
            os.close(reading)
        self._shared = shared

    def load(self, source: GraderSource, limits: GraderLimits, stopping: Stopping | None = None) -> Loaded:
        """Loads a grader into an empty sandbox.

        Raises:
            Ended: the sandbox ended meanwhile.
            InfrastructureError: the sandbox had not even started, its files were removed, or loading took too long on a
                busy machine.
            Stopped: `stopping` returned True.
        """
        self.source, self.limits = source, limits
        self.sandbox.allow_memory(source.memory_mb + SANDBOX_MIB)
        began = monotonic()
        try:
            # Sent before the guest reports that it is ready: a guest with a pending request skips further preparations.
            if self.sandbox.takes_descriptors:
                self._share(SHARE)
            self._channel.send(LOAD, LIMITS.pack(*limits) + source.text.encode())
        finally:
            self.await_ready()
        checks: list[CheckResult] = []
        self._watch.start()
        try:
            self.loaded = self._receive_checks(checks, monotonic() + limits.load_ms / 1000 + _SLACK_S, stopping)
        except Ended:
            if not self.sandbox.ran_out_of_memory():
                raise
            number = min(len(checks), 3)
            self.loaded = Loaded([*checks[:number], CheckResult(number, False, 0, 0, 0, _MEMORY, "")], None, [])
        self._watch.stop()
        self._check_files()
        if self.loaded.isolation is None and monotonic() - began >= limits.load_ms / 1000:
            self.loaded = self.loaded._replace(overdue=True, doubtful=self.loaded.doubtful and self._waited())
        return self.loaded

    def _waited(self) -> bool:
        """Whether loading, which took too long, used little processor time. Raises InfrastructureError if it was given
        little.
        """
        watched = self._watch.result()
        if watched is None:
            return True
        if watched.starved:
            raise InfrastructureError(
                f"loading a grader took too long, but it got a processor for {watched.starved.processor_s:.1f} of "
                f"{watched.starved.seconds:.1f} s, since the machine was busy"
            )
        return watched.processor_s < watched.seconds / 2

    def _receive_checks(self, checks: list[CheckResult], deadline: float, stopping: Stopping | None) -> Loaded:
        while True:
            kind, payload = self._channel.receive(deadline, stopping)
            if kind == CHECK and len(checks) < 4:
                try:
                    checks.append(unpack_check(payload))
                except Malformed as error:
                    raise Ended(str(error)) from error
            elif kind in (LOADED, NOT_LOADED):
                loaded = self._loaded_from(checks, payload if kind == LOADED else None)
                return loaded._replace(doubtful=kind == NOT_LOADED and payload == STOPPED)
            else:
                raise Ended(f"the guest sent a message of kind {kind} while it loaded the grader")

    def _loaded_from(self, checks: list[CheckResult], loaded: bytes | None) -> Loaded:
        all_passed = len(checks) == 4 and all(check.passed for check in checks)
        in_order = [check.number for check in checks] == list(range(len(checks)))
        if not in_order or not checks or all_passed != (loaded is not None):
            raise Ended("the checks that the guest reported are inconsistent")
        if loaded is None:
            return Loaded(checks, None, [])
        isolation: Literal["batch", "completion"] = "batch" if loaded[:1] == bytes([BATCH]) else "completion"
        try:
            asks, warnings, groups = unpack_loaded(loaded[1:])
            if len(asks) > MOST_NAMED or not all(map(_ASK.fullmatch, asks)):
                raise Malformed("it reports asks that `Model`, `Endpoint` and `Grader` cannot make")
        except Malformed as problem:  # the module body runs in the process that sends this, and may forge it
            return Loaded([*checks[:3], checks[3]._replace(passed=False, message=f"{_FORGED}: {problem}")], None, [])
        return Loaded(checks, isolation, warnings, asks=tuple(asks), groups=groups)

    def grade(self, payload: bytes, lines: int, stopping: Stopping | None = None) -> Iterator[Records]:
        """Has lines graded and yields whole records as they arrive; in total one for each line.

        Raises:
            Ended: the sandbox ended meanwhile. The records yielded before count.
            InfrastructureError: its files were removed, or it could not start a process. The records yielded before
                count.
            Stopped: `stopping` returned True. The records yielded before count.
        """
        self._send_lines(payload, lines, stopping)
        # the guest may grade a line twice, if another one may be the cause of its crash
        patience = 2 * self.limits.timeout_ms / 1000 + self.limits.load_ms / 1000 + _GRACE_S + _SLACK_S
        slow = self.loaded is not None and self.loaded.isolation == "completion"
        done = 0
        deadline = monotonic() + patience
        moment = min(LOOK_S, self.limits.timeout_ms / 4000)
        self._watch.start(moment)
        while True:
            if slow and lines - done > _MANY and not self._channel.has_received():
                sleep(_PAUSE_S)  # records arrive one by one: several at once cost less to read, and are safe meanwhile
            kind, data = self._channel.receive(deadline, stopping)
            if kind == DONE:
                self._watch.stop()
                if done != lines:
                    raise Ended(f"the guest reported {done} outcomes for {lines} threads")
                return
            if kind == NO_PROCESS:
                raise InfrastructureError(
                    f"a sandbox could not start a process ({data[:200].decode('utf-8', 'replace')}): see how many "
                    "processes the service's user and container may have (`ulimit -u`, `pids.max`)"
                )
            if kind != RECORDS:
                raise Ended(f"the guest sent a message of kind {kind} while it graded: {data[:200]!r}")
            try:
                records = unpack_records(data)
            except Malformed as error:
                raise Ended(str(error)) from error
            done += records.number
            if done > lines or not records.number:
                raise Ended(f"the guest reported {done} outcomes for {lines} threads")
            self._check_files()
            if watched := self._watch.result():  # otherwise these directly follow others, and the earlier result holds
                self.starved = watched.starved
            yield records
            deadline = monotonic() + patience
            self._watch.start(moment)

    def _send_lines(self, payload: bytes, lines: int, stopping: Stopping | None) -> None:
        if not payload.endswith(b"\n"):
            payload += b"\n"  # the bytes after it in the shared memory are of an earlier chunk
        head = CHUNK.pack(lines, len(payload))
        if self._shared is not None and len(payload) <= SHARED_BYTES:
            self._shared[: len(payload)] = payload
            self._channel.send(GRADE_SHARED, head, stopping)
        else:
            self._channel.send(GRADE, head + payload, stopping)

    def _check_files(self) -> None:
        """Raises InfrastructureError if files that the sandbox sees were removed: its answer may be due to that."""
        if not self.sandbox.seen.are_there():
            raise InfrastructureError(
                "the files of a sandbox in use were removed: let the service alone change GRADEBOX_IMAGE_DIR and "
                "GRADEBOX_ENVIRONMENTS_DIR"
            )

    def reset(self) -> None:
        """Starts a reset, which discards the state of the last batch. `settle` waits for it."""
        if self.sandbox.takes_descriptors:
            self._share(RESET)
        else:
            self._channel.send(RESET)
        self._unsettled = True

    def settle(self, stopping: Stopping | None = None) -> None:
        """Waits until a reset is done.

        Raises:
            Ended: the sandbox could not be reset.
            Stopped: `stopping` returned True.
        """
        if self._unsettled:
            kind, payload = self._channel.receive(monotonic() + _GRACE_S + _SLACK_S, stopping)
            if kind != DONE:
                raise Ended(f"the sandbox could not be reset: {payload[:200]!r}")
            self._unsettled = False

    def end(self) -> None:
        """Ends the sandbox. Raises StillRunning if it has not exited yet; another call waits for it again."""
        self.sandbox.end()
        self._used.close()
        if self._shared is not None:
            self._shared.close()


def count_lines(payload: bytes) -> int:
    """Returns the number of lines that the guest will see: the last one may lack its newline."""
    return payload.count(b"\n") + (not payload.endswith(b"\n") and bool(payload))


def after(payload: bytes, lines: int) -> bytes:
    """Returns the part of the payload after the first `lines` lines."""
    return payload.split(b"\n", lines)[lines]
