"""The process that grades. It is forked from the template, for one completion or for as many as it survives.

It writes each outcome at once, so that a hang or a crash costs only the completion during which it happened.
"""

import sys
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from io import BytesIO
from mmap import mmap
from os import _exit, getpid, readv, write
from struct import Struct
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from gradebox.thread import StringThread
from sandbox.guest.child.encode_outcome import read_exception, read_return
from sandbox.guest.child.missing_loop import asked, refused
from sandbox.guest.child.output import ChildOutput
from sandbox.guest.child.process_state import ProcessState, lacks_descriptor_or_room
from sandbox.guest.child.read_thread import BadInput, LineReader
from sandbox.guest.child.record_writer import RecordWriter
from sandbox.guest.child.runnable_grader import Graded, ReadReturn, RunnableGrader
from sandbox.guest.child.seeding import reseed
from sandbox.guest.child.shared_records import map_file
from sandbox.guest.kernel.signals import end_alarms
from sandbox.guest.protocol.chunk import map_shared
from sandbox.guest.protocol.fields import MESSAGE, encode
from sandbox.guest.protocol.grader_limits import GraderLimits
from sandbox.guest.protocol.records import BAD_INPUT, MEMORY, NO_COMPLETION, SCORED

if TYPE_CHECKING:
    from sandbox.guest.child.asking_run import AskingRun
    from sandbox.guest.child.completion_loop import CompletionRunner

# The number of lines, of lines already done, and of bytes; whether the lines are in the shared memory; whether there
# are slots; the bytes of room for the fields of records in slots.
SHARE = Struct("!III??I")
# Messages of a child to the supervisor besides records and those of `record_writer`: its lines are done; another child
# must do the remaining lines.
DONE, LEAVING = b"d", b"l"

_INFINITY = float("inf")
_completion_of = StringThread.completion  # before a grader can replace the method, as `os._exit` above
_NEW_CONTEXT = object()  # for the driver to go on in: a completion has set context variables, such as that of decimal


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
        self._records = RecordWriter(output, limits.timeout_ms)
        self._channel = -1
        self._shared: mmap | None = None
        self._slots: mmap | None = None
        self._pid = 0
        self._is_one = self._last = False  # whether this process grades one line, and whether it then ends
        self._left = 0
        self._line: bytes | None = None
        self._readline: Callable[[], bytes] = bytes
        self._runner: CompletionRunner | None = None
        self._suspended: list[Coroutine[Any, Any, None]] = []
        self._asking: AskingRun | None = None
        self._grade: Callable[[Any], Coroutine[Any, Any, object]] = grader.grade
        self._completion_of: Callable[[Any], object] = _completion_of
        self._read_return: ReadReturn = read_return
        if grader.groups:
            from sandbox.guest.child.group_scores import read_group_return

            self._completion_of, self._read_return = _completions_of, read_group_return
        self._has_run = False
        self._state: ProcessState

    def serve(self, ends: Ends) -> None:
        """Grades until the supervisor closes the channel."""
        self._pid = getpid()
        self._channel = self._records.channel = ends.channel
        self._records.pipe = ends.results
        self._shared = map_shared(ends.shared) if ends.shared >= 0 else None
        self._slots = map_file(ends.slots) if ends.slots >= 0 else None
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
        self._is_one, self._last, self._line = True, last, None
        self._readline = partial(self._receive_one, next_one)
        if self._grader.needs_loop:
            self._line = self._readline()
        self._run()

    def _receive_one(self, next_one: Callable[[], tuple[bytes, int]]) -> bytes:
        line, self._records.pipe = next_one()
        self._pid = getpid()
        return line

    def _grade_asking(self, next_one: Callable[[], tuple[bytes, int]]) -> NoReturn:
        from sandbox.guest.child.asking_run import AskingRun  # already imported by the template

        run = AskingRun(self._grader, self._limits, self._reader, self._read_return, self._output)
        outcome = run.grade(self._receive_one(next_one))
        if getpid() == self._pid:  # otherwise `grade` forked, and this is the forked process
            self._records.write(*outcome)
        _exit(0)

    def _run_asking(self) -> None:
        """Grades lines with their answers.

        A run that is over for now is ended before the next run starts. If it does not end, another process does the
        remaining lines. If a run does not repeat its earlier asks, the cause may be state that earlier runs have left
        in this process, so another process runs it again.
        """
        from sandbox.guest.child.asking_run import AskingRun  # already imported by the template

        self._asking = self._asking or AskingRun(
            self._grader, self._limits, self._reader, self._read_return, self._output
        )
        for left in range(self._left, 0, -1):
            self._left = left
            outcome = self._asking.grade(self._readline())
            if self._grader.touches_system:
                end_alarms()  # an alarm that it left would raise in another run
            is_over = self._asking.end()  # before its record is written: its cost then counts for its completion
            if self._grader.touches_system and not self._output.restore_streams():
                is_over = False
            if not self._state.is_fit():
                is_over = False
            if getpid() != self._pid:
                _exit(0)  # `grade` forked, and this is the forked process
            if self._has_run and not self._asking.has_repeated:
                self._leave()
            self._records.write(*outcome)
            self._has_run = True
            if not is_over:
                self._leave()

    def _leave(self) -> NoReturn:
        write(self._channel, LEAVING)
        self._receive_bytes(1)  # until the supervisor ends this process
        _exit(0)

    def _receive(self) -> bool:
        """Receives the next lines to grade. Lines are read in place, one at a time, which keeps them in the cache."""
        head = self._receive_bytes(SHARE.size)
        if head is None:
            return False
        self._left, done, length, shared, slotted, room = SHARE.unpack(head)
        self._records.begin(self._slots if slotted else None, done, room)
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
        drive = self._drive_one if self._is_one else self._drive
        if not self._grader.needs_loop:
            # Most graders never wait for anything. Driving their coroutines without an event loop is 150 times cheaper.
            driver = drive()
            try:
                while copy_context().run(driver.send, None) is _NEW_CONTEXT:
                    pass
            except StopIteration:
                return
            self._suspended.append(driver)  # kept, because closing it would run code of the grader
            self._grader.needs_loop = True
            self._output.begin_again()
        if self._runner is None:
            from sandbox.guest.child.completion_loop import CompletionRunner  # takes longer than most graders

            self._runner = CompletionRunner()
            self._grade = partial(self._runner.grade, self._grader.grade)
        self._runner.run(drive())

    async def _drive(self) -> None:
        """Grades the lines that are left, and cleans up after each."""
        runner, state, careful = self._runner, self._state, self._grader.touches_system
        grade_line, write_record, before = self._grade_line, self._records.write, copy_context()
        for left in range(self._left, 0, -1):
            self._left = left
            kind, micros, score, fields = await grade_line()
            if careful:
                end_alarms()  # an alarm that it left would raise in another completion
                self._end_if_forked()
            is_over = True
            if runner is not None:
                is_over = await runner.end_completion(is_plain=not fields)
                self._end_if_forked()
            if careful and not self._output.restore_streams():
                is_over = False
            if not state.is_fit_after(micros):
                is_over = False
            if asked and runner is None and not self._grader.has_own_loop:  # it may have caught the error: 0.0
                await _Suspend()
            if refused and self._suspended:
                if self._has_run:
                    self._leave()  # without the completions before it, this one may need no loop
                refused.clear()
            write_record(kind, micros, score, fields)
            self._has_run, self._line = True, None
            if not is_over:
                self._leave()
            if runner is None and (before or copy_context()) and _differ(before, copy_context()):
                await _Suspend(_NEW_CONTEXT)

    async def _drive_one(self) -> None:
        """Grades the one line of this process."""
        outcome = await self._grade_line()  # the process is forked in it, so that its frame is made once for all
        self._end_if_forked()
        if asked and self._runner is None and not self._grader.has_own_loop:
            await _Suspend()
        self._records.write(*outcome)
        if self._last:
            _exit(0)

    async def _grade_line(self) -> Graded:
        """Grades the next line, or the one that is graded again, in an event loop."""
        if self._line is None:
            self._line = self._readline()
        try:
            thread = self._reader.read(self._line)
        except BadInput as problem:
            return BAD_INPUT, 0, 0.0, [(MESSAGE, encode(str(problem), self._limits.text_bytes))]
        flag = 0 if self._completion_of(thread) is not None else NO_COMPLETION
        if "random" in sys.modules:
            reseed()
        started = perf_counter_ns()
        try:
            value = await self._grade(thread)
            micros = (perf_counter_ns() - started) // 1000
            if type(value) is float and -_INFINITY < value < _INFINITY:  # most are, and the rest takes longer
                return SCORED | flag, micros, value, []
            score, fields = self._read_return(value, self._limits.text_bytes, self._limits.details_bytes)
            return SCORED | flag, micros, score, fields
        except BaseException as error:  # noqa: BLE001  # whatever a grader raises is its outcome
            micros = (perf_counter_ns() - started) // 1000
            kind, fields = read_exception(error, self._grader.text, self._limits.text_bytes)
            if self._has_run and (kind == MEMORY or lacks_descriptor_or_room(error)):
                self._end_if_forked()
                self._leave()  # earlier completions may have left too little
            return kind | flag, micros, 0.0, fields

    def _end_if_forked(self) -> None:
        """Ends this process if `grade` forked it: it has no completion."""
        if getpid() != self._pid:
            _exit(0)


class _Suspend:
    """Awaited to suspend the driver: for good, because the completion is graded again in an event loop; or until it is
    continued in a new context.
    """

    def __init__(self, reason: object = None) -> None:
        self._reason = reason

    def __await__(self) -> Any:
        yield self._reason


def _completions_of(threads: list[StringThread]) -> list[str] | None:
    """The completions of a group; None if a thread has none."""
    completions = [completion for thread in threads if (completion := _completion_of(thread)) is not None]
    return completions if len(completions) == len(threads) else None


def _differ(before: Context, after: Context) -> bool:
    """Whether a context variable has another value. Compares by identity: `==` may be code of the grader."""
    return len(before) != len(after) or any(before.get(name) is not value for name, value in after.items())
