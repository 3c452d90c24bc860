"""The process that grades. It is forked from the template, for one completion or for as many as it survives.

It writes each outcome at once, so that a hang or a crash costs only the completion during which it happened.
"""

import os
import sys
from _thread import _count as count_threads  # `threading.active_count` takes ten times as long, each completion
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from io import BytesIO
from mmap import mmap
from os import getpid, readv, write
from struct import Struct
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from sandbox.guest.child import missing_loop
from sandbox.guest.child.encode_outcome import read_exception, read_return
from sandbox.guest.child.output import ChildOutput, own
from sandbox.guest.child.process_state import ProcessState, lacks_descriptor_or_room
from sandbox.guest.child.read_thread import BadInput, LineReader
from sandbox.guest.child.seeding import reseed
from sandbox.guest.child.shared_records import FIELDS_AT, map_file
from sandbox.guest.kernel.signals import end_alarms
from sandbox.guest.protocol.chunk import map_shared
from sandbox.guest.protocol.fields import MESSAGE, STDOUT, encode, pack_fields
from sandbox.guest.protocol.grader_limits import COMPLETION, GraderLimits
from sandbox.guest.protocol.records import (
    BAD_INPUT,
    ELSEWHERE,
    MARK,
    MEMORY,
    MOST_MICROS,
    NO_COMPLETION,
    RECORD,
    SCORED,
    pack_record,
)

if TYPE_CHECKING:
    from sandbox.guest.child.asking_run import AskingRun
    from sandbox.guest.child.completion_loop import CompletionRunner

# The number of lines, of lines already done, and of bytes; whether the lines are in the shared memory; whether there
# are slots; the bytes of room for the fields of records in slots.
SHARE = Struct("!III??I")
# Messages of a child to the supervisor besides records: its lines are done; the pipe is full; another child must do the
# remaining lines; and from time to time, how many slots are filled. The slots alone do not show it, because a processor
# may make the last write visible first.
DONE, FULL, LEAVING, FILLED = b"d", b"f", b"l", b"p"
FILLED_DIGITS = 7
_REPORT_NS, _REPORT_BYTES = 50_000_000, 1 << 16

# What completions have left is looked at after so many, and after each one that takes longer: it may have left much.
_LOOK_EACH, _LONG_MICROS = 64, 500

_NEW_CONTEXT = object()  # for the driver to go on in: a completion has set context variables, such as that of decimal
_INFINITY = float("inf")
_pack_into = RECORD.pack_into
_SLOT_BYTES = RECORD.size


class RunnableGrader(Protocol):
    """The attributes of the loaded grader that a child uses."""

    text: str
    grade: Callable[[object], Coroutine[Any, Any, object]]
    needs_loop: bool
    touches_system: bool
    asks: bool
    groups: bool


ReadReturn = Callable[[Any, int, int], tuple[float, list[tuple[int, bytes]]]]
"""Reads what `grade` returned, as `read_return` does."""


class Ends(NamedTuple):
    """The descriptors that connect a child to the supervisor.

    Lines arrive on `channel`, records are written to `results`. `shared` and `slots` are the memory for lines and
    records, -1 if there is none.
    """

    channel: int
    results: int
    shared: int = -1
    slots: int = -1


class GradingLoop:
    """Grades the lines that arrive, and writes a record of each."""

    def __init__(self, grader: RunnableGrader, limits: GraderLimits, reader: LineReader, output: ChildOutput) -> None:
        self._grader = grader
        self._limits = limits
        self._reader = reader
        self._output = output
        self._channel = -1
        self._results = -1
        self._shared: mmap | None = None
        self._memory: mmap | None = None
        self._slots: mmap | None = None
        self._slot = 0
        self._fields_at = self._fields_end = 0  # where the next fields go, and the end of the room for them
        self._begun = 0  # when the lines arrived, in nanoseconds
        self._unreported = 0  # bytes of records written since the last report
        self._pid = 0
        self._last = False
        self._next_one: Callable[[], tuple[bytes, int]] | None = None
        self._left = 0
        self._line: bytes | None = None
        self._readline: Callable[[], bytes] = bytes
        self._runner: CompletionRunner | None = None
        self._suspended: list[Coroutine[Any, Any, None]] = []
        self._asking: AskingRun | None = None
        self._read_return: ReadReturn = read_return
        if grader.groups:
            from sandbox.guest.child.group_scores import read_group_return

            self._read_return = read_group_return
        self._has_run = False
        self._state: ProcessState | None = None

    def serve(self, ends: Ends) -> None:
        """Grades until the supervisor closes the channel."""
        self._pid = getpid()
        self._channel = ends.channel
        self._results = ends.results
        self._shared = map_shared(ends.shared) if ends.shared >= 0 else None
        self._memory = map_file(ends.slots) if ends.slots >= 0 else None
        self._state = ProcessState()
        while self._receive():
            self._run()
            write(self._channel, DONE)

    def grade_one(self, next_one: Callable[[], tuple[bytes, int]], last: bool = True) -> None:
        """Grades one line, and then ends the process if `last`.

        Args:
            next_one: returns the line, and the descriptor for its record. It may fork and return in the child. Work
                that can be done before this call is done before it, so that it is done once for all children.
            last: whether this is the last line of the process.
        """
        if self._grader.asks:
            self._grade_asking(next_one)
        self._last, self._left, self._next_one = last, 1, next_one
        self._line = None
        if self._grader.needs_loop:
            self._line, self._results = next_one()
            self._pid = getpid()
        leave = os._exit
        self._run()
        if last:
            leave(0)

    def _grade_asking(self, next_one: Callable[[], tuple[bytes, int]]) -> NoReturn:
        from sandbox.guest.child.asking_run import AskingRun  # already imported by the template

        run = AskingRun(self._grader, self._limits, self._reader, self._read_return)
        line, self._results = next_one()
        pid = getpid()
        record = pack_record(*run.grade(line))
        if getpid() == pid:  # otherwise `grade` forked, and this is the forked process
            self._tell(record)
        os._exit(0)

    def _run_asking(self) -> None:
        """Grades lines with their answers.

        A run that is over for now is ended before the next run starts. If it does not end, another process does the
        remaining lines. If a run does not repeat its earlier asks, the cause may be state that earlier runs have left
        in this process, so another process runs it again.
        """
        from sandbox.guest.child.asking_run import AskingRun  # already imported by the template

        self._asking = self._asking or AskingRun(self._grader, self._limits, self._reader, self._read_return)
        report_at = perf_counter_ns() + _REPORT_NS
        for left in range(self._left, 0, -1):
            self._left = left
            kind, micros, score, fields = self._asking.grade(self._readline())
            if self._grader.touches_system:
                end_alarms()  # an alarm that it left would raise in another run
            is_over = self._asking.end()  # before its record is written: its cost then counts for its completion
            if self._grader.touches_system and not self._output.restore_streams():
                is_over = False
            if self._state is not None and not self._state.is_fit():
                is_over = False
            if getpid() != self._pid:
                os._exit(0)  # `grade` forked, and this is the forked process
            if self._has_run and not self._asking.has_repeated:
                self._leave()
            self._finish(kind, micros, score, fields)
            self._has_run = True
            if not is_over:
                self._leave()
            if self._slots is not None and perf_counter_ns() > report_at:
                self._report()
                report_at = perf_counter_ns() + _REPORT_NS

    def _leave(self) -> NoReturn:
        write(self._channel, LEAVING)
        self._receive_bytes(1)  # until the supervisor ends this process
        os._exit(0)

    def _receive(self) -> bool:
        """Receives the next lines to grade. Lines are read in place, one at a time, which keeps them in the cache."""
        head = self._receive_bytes(SHARE.size)
        if head is None:
            return False
        self._begun = perf_counter_ns()
        self._left, done, length, shared, slotted, room = SHARE.unpack(head)
        self._slots = self._memory if slotted else None
        self._slot = done * RECORD.size
        self._fields_at, self._fields_end = FIELDS_AT, FIELDS_AT + room
        if shared and self._shared is not None:
            self._shared.seek(0)
            self._readline = self._shared.readline
        elif (payload := self._receive_bytes(length)) is not None:
            self._readline = BytesIO(payload).readline
        else:
            return False
        for _ in range(done):
            self._readline()
        self._left -= done
        self._line = None
        return True

    def _receive_bytes(self, length: int) -> bytes | None:
        buffer = bytearray(length)
        view = memoryview(buffer)
        while view:
            received = readv(self._channel, (view,))
            if not received:
                return None
            view = view[received:]
        return bytes(buffer)

    def _run(self) -> None:
        if self._grader.asks:
            self._run_asking()
            return
        if not self._grader.needs_loop:
            # Most graders never wait for anything. Driving their coroutines without an event loop is 150 times cheaper.
            driver = self._drive()
            try:
                while copy_context().run(driver.send, None) is _NEW_CONTEXT:
                    pass
            except StopIteration:
                return
            self._suspended.append(driver)  # kept, because closing it would run code of the grader
            self._grader.needs_loop = True
        if self._runner is None:
            from sandbox.guest.child.completion_loop import CompletionRunner  # takes longer than most graders

            self._runner = CompletionRunner()
        self._runner.run(self._drive())

    async def _drive(self) -> None:
        grade, runner = self._grader.grade, self._runner
        if runner is not None:
            grade = partial(runner.grade, grade)
        read, readline, next_one = self._reader.read, self._readline, self._next_one
        slots, may_hold, restore_streams = self._slots, self._output.may_hold, self._output.restore_streams
        report_at = perf_counter_ns() + _REPORT_NS
        modules, clock, careful = sys.modules, perf_counter_ns, self._grader.touches_system
        last, leave, pack, groups = self._last, os._exit, RECORD.pack, self._grader.groups
        asked, state = missing_loop.asked, self._state
        threads = state.threads if state is not None else 0
        line, is_over, before = self._line, True, copy_context()
        for left in range(self._left, 0, -1):
            if line is None:  # otherwise it is graded again, in an event loop
                if next_one is None:
                    line = readline()
                else:
                    line, self._results = next_one()
                    if careful:
                        self._pid = getpid()
            self._line, self._left = line, left
            try:
                thread = read(line)
            except BadInput as problem:
                self._finish(BAD_INPUT, 0, 0.0, [(MESSAGE, encode(str(problem), self._limits.text_bytes))])
                line = None
                continue
            if groups:
                flag = 0 if all(each.completion() is not None for each in thread) else NO_COMPLETION
            else:
                turns = thread._turns
                flag = 0 if turns and turns[-1][0] == "assistant" else NO_COMPLETION
            if "random" in modules:
                reseed()
            fields: list[tuple[int, bytes]] = []
            started = clock()
            try:
                value = await grade(thread)
                micros = (clock() - started) // 1000
                kind = SCORED
                if type(value) is float and -_INFINITY < value < _INFINITY:
                    score = value
                else:
                    score, fields = self._read_return(value, self._limits.text_bytes, self._limits.details_bytes)
            except BaseException as error:  # noqa: BLE001  # whatever a grader raises is its outcome
                micros, score = (clock() - started) // 1000, 0.0
                value = None  # a returned coroutine ends now, so the warning about it is of this completion
                kind, fields = read_exception(error, self._grader.text, self._limits.text_bytes)
                is_short = kind == MEMORY or lacks_descriptor_or_room(error)
                if is_short and self._has_run and next_one is None and getpid() == self._pid:
                    self._leave()  # earlier completions may have left too little
            kind |= flag
            if next_one is None:
                value = thread = None  # code that runs when they are deleted is of this completion
                if careful:
                    end_alarms()  # an alarm that it left would raise in another completion
                if runner is not None and (not careful or getpid() == self._pid):
                    is_over = await runner.end_completion(is_plain=not fields)
                if careful and not restore_streams():
                    is_over = False
                looks = count_threads() != threads or micros > _LONG_MICROS or not left % _LOOK_EACH
                if looks and state is not None and not state.is_fit():
                    is_over = False
            if careful and getpid() != self._pid:
                os._exit(0)  # `grade` forked, and this is the forked process: it has no completion
            if asked and runner is None:  # `grade` may have caught the error, and returned 0.0
                await _Suspend()
            if next_one is not None:  # the supervisor reads the output
                body = pack_fields(fields)
                self._tell(pack(micros, score, len(body), MARK | kind) + body)
                if last:
                    leave(0)
            elif slots is None or fields or may_hold() or micros > MOST_MICROS:
                self._finish(kind, micros, score, fields)
            else:
                _pack_into(slots, self._slot, micros, score, 0, MARK | kind)
                self._slot += _SLOT_BYTES
            if slots is not None and started + micros * 1000 > report_at:
                self._report()
                report_at = started + micros * 1000 + _REPORT_NS
            self._has_run, line = True, None
            if not is_over:
                self._leave()
            if runner is None and (before or copy_context()) and _differ(before, copy_context()):
                await _Suspend(_NEW_CONTEXT)

    def _finish(self, kind: int, micros: int, score: float, fields: list[tuple[int, bytes]]) -> None:
        """Writes an outcome, in its slot if there is room for its fields."""
        if self._output.may_hold() and (printed := self._output.take()):
            # An earlier completion may have been asked where it was, and have ended before the signal arrived.
            fields.append((STDOUT, own(printed, (perf_counter_ns() - self._begun) // 1000, self._limits.timeout_ms)))
        body = pack_fields(fields)
        micros = min(micros, MOST_MICROS)
        slots, start, end = self._slots, self._fields_at, self._fields_at + len(body)
        if slots is None:
            self._tell(RECORD.pack(micros, score, len(body), MARK | kind) + body)
            return
        if end <= self._fields_end:
            slots[start:end] = body
            self._fields_at = end
            _pack_into(slots, self._slot, micros, score, len(body), MARK | kind)
            self._slot += _SLOT_BYTES
            return
        self._tell(RECORD.pack(micros, score, len(body), MARK | kind) + body)
        _pack_into(slots, self._slot, 0, 0.0, 0, MARK | ELSEWHERE)
        self._slot += _SLOT_BYTES
        self._unreported += RECORD.size + len(body)
        if self._unreported >= _REPORT_BYTES:
            self._report()

    def _report(self) -> None:
        """Reports how many slots are filled."""
        write(self._channel, b"%b%0*d" % (FILLED, FILLED_DIGITS, self._slot // _SLOT_BYTES))
        self._unreported = 0

    def _tell(self, record: bytes) -> None:
        try:
            written = write(self._results, record)
        except BlockingIOError:
            written = 0
        if written < len(record):
            self._tell_slowly(memoryview(record)[written:])

    def _tell_slowly(self, rest: memoryview) -> None:
        """Writes to a full pipe. Requests that the supervisor empties it now, not at its next check."""
        os.set_blocking(self._results, True)
        if self._limits.isolation != COMPLETION:
            write(self._channel, FULL)
        while rest:
            rest = rest[write(self._results, rest) :]
        os.set_blocking(self._results, False)


class _Suspend:
    """Awaited to suspend the driver: for good, because the completion is graded again in an event loop; or until it is
    continued in a new context.
    """

    def __init__(self, reason: object = None) -> None:
        self._reason = reason

    def __await__(self) -> Any:
        yield self._reason


def _differ(before: Context, after: Context) -> bool:
    """Whether a context variable has another value. Compares by identity: `==` may be code of the grader."""
    return len(before) != len(after) or any(before.get(name) is not value for name, value in after.items())
