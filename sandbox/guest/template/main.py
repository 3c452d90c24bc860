"""The process that has loaded the grader. It forks a child at each request of the supervisor, and reaps it.

It never examines a completion. In batch isolation it receives none; in completion isolation the line passes through a
buffer of this process, which is zeroed before the next fork. All processes that a child leaves behind, however often it
forked, become children of this process, which kills and reaps all of them before it reports that the child has ended.
"""

import faulthandler
import gc
import os
import select
import signal
import site
import sys
from _socket import CMSG_LEN, socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from struct import unpack
from time import perf_counter_ns
from typing import Any, NoReturn, cast

from sandbox.guest.child import missing_loop
from sandbox.guest.child.main import Ends, GradingLoop
from sandbox.guest.child.output import ChildOutput, make_pipe, may_touch_system
from sandbox.guest.child.read_thread import LineReader, ThreadReader
from sandbox.guest.child.seeding import seed_at_import
from sandbox.guest.child.thread_decoder import hidden_decoder
from sandbox.guest.kernel import lockdown, signals
from sandbox.guest.kernel.open_fds import close_all_but, opened, renew
from sandbox.guest.kernel.reap import reap_all
from sandbox.guest.kernel.usual_limits import accept_usual_limits
from sandbox.guest.protocol.fields import encode
from sandbox.guest.protocol.frames import CheckResult, pack_check, pack_loaded
from sandbox.guest.protocol.grader_limits import AUTO, BATCH, COMPLETION, GraderLimits
from sandbox.guest.template import packages, progress_bars
from sandbox.guest.template.choose_isolation import runs_code
from sandbox.guest.template.fork_per_line import (
    NO_STATUS,
    NOTE,
    OUT_OF_MEMORY,
    SENT_EXIT,
    SENT_SWEPT,
    STATUS,
    SWEEP,
    ForkPerLine,
    end_without_fork,
)
from sandbox.guest.template.managers import connect_by_pairs
from sandbox.guest.template.start_methods import fork_always
from validators import BEFORE_TEST_RUN
from validators.candidate import Candidate, CheckFailed
from validators.own_modules import adds_any, adds_unseen

FORK = b"F"  # in batch isolation, a request for a child; the other request is SWEEP
# Messages of the template, besides those on the end of a child: a check, the grader is loaded, it is not loaded.
SENT_CHECK, SENT_LOADED, SENT_NOT_LOADED = b"c", b"l", b"n"
MOST_SENT = 1 << 16
TELL_PLACE = signal.SIGRTMAX  # makes a child print where it is: see `sandbox/guest/supervisor/timeout_line.py`
_MOST_AT_IMPORT = 4096  # bytes of module-level output: no process reads the pipe, and a full one would block


def settle_in() -> None:
    """Prepares this process to become a template, as far as that is possible without limits and a source."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in any Python program
    lockdown.adopt_orphans()
    lockdown.restrict_files()


class TemplateProcess:
    """The loaded grader and the children that grade with it."""

    needs_loop = False
    has_own_loop = False  # its errors for lack of a loop are its own
    touches_system = True
    asks = False
    groups = False
    text = ""
    grade: Callable[[object], Coroutine[Any, Any, object]]

    def __init__(self, control: socket, limits: GraderLimits) -> None:
        self._control = control
        self._limits = limits
        self._child = 0
        self._child_descriptor = -1
        self._left_open: frozenset[int] = frozenset()  # by the module body; children may use them
        self._handlers: signals.Handlers = {}
        self._output = ChildOutput()
        self._reader = ThreadReader(limits.line_bytes, limits.depth, hidden_decoder(), bool(limits.keep_unknown))
        self._line_reader: LineReader = self._reader

    def run(self, source: bytes) -> NoReturn:
        """Loads the grader, then serves the supervisor until it is killed."""
        lockdown.set_rlimits(self._limits)
        accept_usual_limits()
        reading, writing = make_pipe()
        self._output.lead_to(reading, writing, _MOST_AT_IMPORT, watch_descriptors=False)
        if self._limits.has_packages:
            packages.allow()
        fork_always()
        connect_by_pairs()
        _add_names_of_site()
        seed_at_import()
        progress_bars.stay_in_one_thread()
        if self._load(source):
            os.close(reading)
            reap_all()  # processes that the module body started do not outlive it
            self._handlers = signals.put_away()
            faulthandler.register(TELL_PLACE, file=2)  # in the template, no process reads this pipe
            if self._limits.isolation == COMPLETION:
                ForkPerLine(self._control, self._limits, self._grader(), self._output, self._handlers).serve()
            else:
                self._serve()
        os._exit(0)

    def _load(self, source: bytes) -> bool:
        place = packages.PLACE if self._limits.has_packages else ""
        candidate = Candidate(source, place, self._limits.text_bytes)
        own = opened()
        missing_loop.note_requests()
        for number, check in enumerate(BEFORE_TEST_RUN):
            pid, started = os.getpid(), perf_counter_ns()
            try:
                message = check(candidate)
                result = CheckResult(number, True, 0, 0, 0, message, "")
            except CheckFailed as failed:
                result = CheckResult(number, False, failed.line, failed.column, 0, failed.message, failed.trace)
            if os.getpid() != pid:
                os._exit(0)  # the module body forked, and this is the forked process
            micros = min((perf_counter_ns() - started) // 1000, 0xFFFFFFFF)
            self._control.send(SENT_CHECK + pack_check(result._replace(micros=micros)))
            if not result.passed:
                self._control.send(SENT_NOT_LOADED)
                return False
        self._left_open = opened() - own
        self._settle(candidate, bool(self._left_open))
        return True

    def _settle(self, candidate: Candidate, leaves_open: bool) -> None:
        if self._limits.isolation == AUTO:
            own = candidate.modules.values()
            runs = adds_unseen(candidate.tree) or any(map(adds_any, own)) or any(map(runs_code, (candidate.tree, *own)))
            self._limits = self._limits._replace(isolation=COMPLETION if runs else BATCH)
        self.text = candidate.text
        self.grade = cast("Callable[[object], Coroutine[Any, Any, object]]", candidate.grade)
        self.touches_system = may_touch_system(candidate.text)
        may_wait = "asyncio" in sys.modules or "asyncio" in candidate.text
        self.has_own_loop = getattr(candidate.grade, "has_own_loop", False)
        self.needs_loop = may_wait and (bool(candidate.asks) or not (candidate.runs_loop or self.has_own_loop))
        if candidate.asks:
            import sandbox.guest.child.asking_run  # before the fork, so that all children share it

            self.asks = True
            if self.needs_loop:
                import sandbox.guest.child.asking_loop  # noqa: F401  # the same
        if candidate.groups:
            self._take_groups()
        missing_loop.asked.clear()
        warnings = "\n".join(candidate.warnings)
        del candidate.tree, candidate.modules, candidate.code
        gc.collect()
        gc.freeze()  # children then keep sharing these pages
        head = bytes([self._limits.isolation, leaves_open])
        self._control.send(SENT_LOADED + head + pack_loaded(candidate.asks, encode(warnings, 8192), self.groups))

    def _take_groups(self) -> None:
        from sandbox.guest.child.group_scores import of_groups
        from sandbox.guest.child.read_group import GroupReader

        self.groups = True
        self.grade = of_groups(self.grade, self.text)  # type: ignore[assignment]  # its reader passes lists of threads
        self._line_reader = GroupReader(self._reader)

    def _grader(self) -> GradingLoop:
        return GradingLoop(self, self._limits, self._line_reader, self._output)

    def _serve(self) -> None:
        child = self._grader()
        gc.freeze()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._child_descriptor:
                    poll.unregister(descriptor)
                    self._control.send(SENT_EXIT + STATUS.pack(self._end_child()))
                    break  # the other events of this poll may be outdated
            else:
                self._handle_request(child)
                if self._child_descriptor >= 0:
                    poll.register(self._child_descriptor, select.POLLIN)

    def _handle_request(self, child: GradingLoop) -> None:
        message, ancillary, _, _ = self._control.recvmsg(1, CMSG_LEN(6 * 4))
        if message == FORK:
            ((_, _, rights),) = ancillary
            self._fork(child, *unpack(f"{len(rights) // 4}i", rights))
        elif message == SWEEP:
            if self._child_descriptor >= 0:
                self._end_child()
            self._control.send(SENT_SWEPT)
        else:
            os._exit(0)  # the supervisor has exited

    def _fork(
        self,
        child: GradingLoop,
        channel: int,
        results: int,
        reading: int,
        writing: int,
        shared: int = -1,
        slots: int = -1,
    ) -> None:
        try:
            self._child = os.fork()
        except OSError as error:
            end_without_fork(self._control, error)
        if self._child:
            with suppress(OSError):  # the module body may have closed it
                os.pwrite(NOTE, STATUS.pack(self._child), 0)
            for descriptor in (channel, results, reading, writing, shared, slots):
                if descriptor >= 0:
                    os.close(descriptor)
            self._child_descriptor = os.pidfd_open(self._child)
            return
        close_all_but({channel, results, reading, writing, shared, slots, *self._left_open} - {-1})
        renew(0)
        os.setsid()  # os.kill(0, …) then reaches only this child's group
        signals.put_back(self._handlers)
        try:
            self._output.lead_to(reading, writing, self._limits.stdout_bytes, self.touches_system)
            child.serve(Ends(channel, results, shared, slots))
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        os._exit(0)

    def _end_child(self) -> int:
        """Ends the child and all processes that it left. Returns its wait status."""
        os.close(self._child_descriptor)
        self._child_descriptor = -1
        status = reap_all(self._child)
        return NO_STATUS if status is None else status


def _add_names_of_site() -> None:
    """Adds `exit` and `quit`, by which many programs end, and `help`. The interpreter starts without `site`."""
    site.setquit()
    site.setcopyright()
    site.sethelper()
