"""Tests that a pool keeps, limits and ends sandboxes by its settings, and that no state passes between batches."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sandbox.backends.bubblewrap import Bubblewrap, BubblewrapSandbox
from sandbox.errors import Busy, InfrastructureError, StillRunning
from sandbox.grader_source import GraderSource
from sandbox.grading.grading import Grading
from sandbox.limits import MAX_STDOUT_BYTES
from sandbox.pool import pool as pool_module
from sandbox.pool.counts import ENDS
from sandbox.pool.pool import Pool, open_pool
from sandbox.settings import SandboxSettings
from tests.processes import runs
from tests.sandbox.scoring import BOTH, kinds, line, score
from tests.waiting import eventually

pytestmark = pytest.mark.sandbox

_LINE = line("abc")
_LEAVES_A_THREAD = """
import threading, time

async def grade(thread):
    threading.Thread(target=time.sleep, args=(60,)).start()
    return 1.0
"""

_COUNTS_IN_A_FILE = """
import os
os.makedirs("/tmp/folder")
open("/tmp/folder/notes", "w").close()

async def grade(thread):
    with open("/tmp/folder/notes", "a") as notes:
        notes.write("x")
    return os.path.getsize("/tmp/folder/notes")
"""


class Counted(Bubblewrap):
    """Bubblewrap that records what it starts, and can be made to fail."""

    def __init__(self, settings: SandboxSettings) -> None:
        self.broken: BaseException | None = None
        self.started: list[BubblewrapSandbox] = []
        self.pids: list[int] = []
        super().__init__(settings)
        self.started.clear()  # the constructor starts one as a trial
        self.pids.clear()

    def start(self, environment: Path | None = None) -> BubblewrapSandbox:
        if self.broken is not None:
            raise self.broken
        sandbox = super().start(environment)
        self.started.append(sandbox)
        self.pids.append(sandbox.pid)
        return sandbox

    def alive(self) -> list[int]:
        return [pid for pid in list(self.pids) if runs(pid)]


def source(score: float, project: str = "") -> GraderSource:
    return GraderSource(f"async def grade(thread):\n    return {score}\n", project=project)


def pid_of(grading: Grading) -> int:
    return grading.session.sandbox.pid


def grade(pool: Pool, grader: GraderSource) -> tuple[float | None, int]:
    """The score of one thread, and the pid of its sandbox."""
    with pool.grading(grader) as grading:
        pid = pid_of(grading)
        return grading.score(_LINE, 0, "g@1")[0].score, pid


def told(pool: Pool, name: str, **labels: str) -> float:
    """The value of a counter of a pool."""
    value = pool.counts.registry.get_sample_value(f"gradebox_{name}_total", {"role": "", **labels})
    assert value is not None
    return value


@contextmanager
def counted(broken: BaseException | None = None, **settings: float) -> Iterator[tuple[Counted, Pool]]:
    """A backend that starts nothing if it is `broken`, and an open pool on it."""
    made = SandboxSettings.model_validate({"warm_sandboxes": 0, **settings})
    backend = Counted(made)
    backend.broken = broken
    with Pool(backend, made) as pool:
        yield backend, pool


def test_empty_sandboxes_are_started_ahead_of_need() -> None:
    with counted(warm_sandboxes=2) as (backend, pool):
        eventually(lambda: len(backend.alive()) == 2, 8.0)
        ready = backend.alive()
        score, pid = grade(pool, source(0.5))
        assert score == 0.5
        assert pid in ready
        eventually(lambda: len(backend.started) == 3, 8.0)  # another replaces it


def test_other_limits_are_another_sandbox(pool: Pool) -> None:
    text = source(0.625).text
    pids = {grade(pool, GraderSource(text, timeout_s=timeout_s))[1] for timeout_s in (1.0, 2.0)}
    assert len(pids) == 2


def test_a_loaded_grader_is_used_again_and_the_one_that_was_used_longest_ago_is_closed_first() -> None:
    with counted(loaded_sandboxes=2) as (backend, pool):
        one, two = grade(pool, source(1)), grade(pool, source(2))
        assert (one[0], two[0], one[1] != two[1]) == (1.0, 2.0, True)
        assert grade(pool, source(1)) == one
        three = grade(pool, source(3))
        eventually(lambda: sorted(backend.alive()) == sorted([one[1], three[1]]), 8.0)
        assert grade(pool, source(3)) == three
        assert grade(pool, source(1)) == one
        assert grade(pool, source(2))[1] != two[1]


def test_a_grader_that_nobody_uses_is_closed() -> None:
    with counted(idle_s=0.5) as (backend, pool):
        grade(pool, source(1))
        assert len(backend.alive()) == 1
        eventually(lambda: backend.alive() == [], 8.0)
        assert grade(pool, source(1))[0] == 1.0


def test_no_more_sandboxes_than_allowed() -> None:
    with (
        ThreadPoolExecutor(1) as threads,
        counted(most_sandboxes=2) as (backend, pool),
        pool.grading(source(1, "one")) as one,
    ):
        with pool.grading(source(2, "two")) as two:
            assert pid_of(one) != pid_of(two)
            waiting = threads.submit(grade, pool, source(3, "three"))
            time.sleep(0.5)
            assert not waiting.done()
            assert len(backend.started) == 2
        assert waiting.result()[0] == 3.0  # an idle grader makes room
        assert len(backend.alive()) == 2
        assert one.score(_LINE, 0, "g@1")[0].score == 1.0


def test_eight_threads_at_once() -> None:
    jobs = [number % 4 for number in range(40)]
    with counted(most_sandboxes=3, loaded_sandboxes=2) as (backend, pool), ThreadPoolExecutor(8) as threads:
        scores = list(threads.map(lambda number: grade(pool, source(number))[0], jobs))
        assert len(backend.alive()) <= 3
    assert scores == [float(number) for number in jobs]


def test_an_empty_sandbox_is_made_up_for_when_nobody_grades() -> None:
    with counted(warm_sandboxes=1) as (backend, pool):
        eventually(lambda: len(backend.alive()) == 1, 8.0)
        with pool.grading(source(1)) as grading:
            grading.score(_LINE, 0, "g@1")
            assert len(backend.started) == 1
            eventually(lambda: len(backend.started) == 2, 2.0)  # but is not delayed forever
        grade(pool, source(2))
        eventually(lambda: len(backend.started) == 3, 8.0)


def test_a_sandbox_whose_user_failed_is_not_used_again(pool: Pool) -> None:
    with pytest.raises(LookupError), pool.grading(source(0.875)) as grading:
        left = pid_of(grading)
        raise LookupError
    assert grade(pool, source(0.875))[1] != left
    eventually(lambda: not runs(left), 8.0)


def test_closing_leaves_no_process() -> None:
    with counted(warm_sandboxes=2) as (backend, pool):
        grade(pool, GraderSource(_LEAVES_A_THREAD, "batch"))
        grade(pool, source(1))
        eventually(lambda: len(backend.alive()) == 4, 8.0)
    eventually(lambda: backend.alive() == [], 20.0)
    with pytest.raises(InfrastructureError, match="stopping"):
        grade(pool, source(2))


@pytest.mark.parametrize("error", [InfrastructureError("no more processes"), OSError(28, "no more processes")])
@pytest.mark.parametrize("warm", [0, 1])
def test_a_backend_that_starts_nothing_is_told_and_heals(error: Exception, warm: int) -> None:
    with counted(error, warm_sandboxes=warm, most_sandboxes=2) as (backend, pool):
        began = time.monotonic()
        with pytest.raises(InfrastructureError, match=r"no sandbox could be started: .*no more processes"):
            grade(pool, source(1))
        assert time.monotonic() - began < 20  # a pool waits for a sandbox for up to a minute
        assert "no more processes" in str(pool.trouble())
        assert told(pool, "sandbox_starts_failed") >= 1
        backend.broken = None
        eventually(lambda: pool.trouble() is None, 8.0)  # also without a request for a sandbox
        assert grade(pool, source(1))[0] == 1.0


def test_a_backend_that_starts_nothing_beside_loaded_sandboxes_heals() -> None:
    with counted(most_sandboxes=2) as (backend, pool):
        with pool.grading(source(1, "one")) as one, pool.grading(source(2, "two")) as two:
            assert [pid_of(one), pid_of(two)] == backend.pids
        backend.broken = OSError(24, "no descriptors left")
        with pytest.raises(InfrastructureError, match="no descriptors left"):
            grade(pool, source(3))
        backend.broken = None
        eventually(lambda: pool.trouble() is None, 8.0)
        assert grade(pool, source(3))[0] == 3.0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_builder_that_ends_is_told() -> None:
    with counted() as (backend, pool):
        assert pool.trouble() is None
        backend.broken = SystemExit("go")
        began = time.monotonic()
        for _ in range(2):
            with pytest.raises(InfrastructureError, match="the thread that starts sandboxes has ended: SystemExit: go"):
                grade(pool, source(1))
        assert "SystemExit" in str(pool.trouble())
        assert time.monotonic() - began < 20


def test_a_sandbox_that_cannot_be_ended_costs_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    end = BubblewrapSandbox.end

    def fails(sandbox: BubblewrapSandbox) -> None:
        end(sandbox)
        raise OSError(5, "the engine is away")

    with counted(most_sandboxes=1) as (_, pool):
        monkeypatch.setattr(BubblewrapSandbox, "end", fails)
        each_ends_one = GraderSource(_COUNTS_IN_A_FILE, "completion")
        assert kinds(score(pool, each_ends_one, [_LINE] * 2)) == [1.0, 1.0]
        assert grade(pool, source(2))[0] == 2.0
        monkeypatch.undo()
        assert told(pool, "sandbox_ends_failed") >= 2


def test_a_killed_sandbox_keeps_its_place_until_it_has_exited(monkeypatch: pytest.MonkeyPatch) -> None:
    end, hangs = BubblewrapSandbox.end, threading.Event()
    hangs.set()

    def waits(sandbox: BubblewrapSandbox) -> None:
        if hangs.is_set():
            time.sleep(0.05)
            raise StillRunning("it hangs")
        end(sandbox)

    with counted(most_sandboxes=1) as (_, pool):
        monkeypatch.setattr(BubblewrapSandbox, "end", waits)
        with suppress(KeyError), pool.grading(source(1)) as grading:
            assert grading.score(_LINE, 0, "g@1")[0].score == 1.0
            raise KeyError
        assert (pool.alive, told(pool, "sandbox_ends_failed")) == (1, 1)
        monkeypatch.setattr("sandbox.pool.ready_sandboxes.WAIT_S", 0.3)
        with pytest.raises(InfrastructureError, match="no sandbox was started"):
            grade(pool, source(2))
        hangs.clear()
        eventually(lambda: pool.alive == 0, 8.0)
        assert grade(pool, source(2))[0] == 2.0


def test_loads_starts_and_ends_are_counted_with_their_reasons() -> None:
    settings = SandboxSettings(warm_sandboxes=1)
    with open_pool(settings) as pool:
        assert [grade(pool, source(1))[0] for _ in range(2)] == [1.0, 1.0]
        with pool.grading(source(1)), suppress(KeyError):
            raise KeyError
        pool.prove(GraderSource("not python", "auto", 5.0, 256))
        for _ in range(2):
            grade(pool, GraderSource(_COUNTS_IN_A_FILE))
    assert [told(pool, "pool_loads", result=result) for result in ("miss", "hit")] == [4, 1]
    assert [told(pool, "sandboxes_ended", why=why) for why in ("refused", "tainted")] == [1, 1]
    assert told(pool, "sandboxes_started") == sum(told(pool, "sandboxes_ended", why=why) for why in ENDS)
    assert pool.counts.registry.get_sample_value("gradebox_sandboxes_alive", {"role": ""}) == 0
    assert pool.alive == 0


@BOTH
def test_what_a_batch_wrote_into_files_of_the_body_is_not_found_by_the_next(isolation: Any, pool: Pool) -> None:
    grader = GraderSource(_COUNTS_IN_A_FILE, isolation)
    expected = [1.0, 2.0 if isolation == "batch" else 1.0]
    assert [kinds(score(pool, grader, [_LINE] * 2)) for _ in range(3)] == [expected] * 3


# Objects that a module body may leave open. `used` returns the number of its uses.
_LEFT_OPEN = {
    "a file without a name": """
import tempfile
F = tempfile.TemporaryFile()
def used():
    F.write(b"x")
    F.flush()
    return F.seek(0, 2)
""",
    "a database": """
import sqlite3
D = sqlite3.connect("/tmp/d")
D.execute("create table t (x)")
def used():
    D.execute("insert into t values (1)")
    D.commit()
    return D.execute("select count(*) from t").fetchone()[0]
""",
    "a pipe": """
import os
R, W = os.pipe()
os.write(W, b"x")
def used():
    found = len(os.read(R, 99))
    os.write(W, b"x" * (found + 1))
    return found
""",
    "a value of several processes": """
import multiprocessing
V = multiprocessing.Value("i", 0)
def used():
    V.value += 1
    return V.value
""",
    "the place in a file": """
import json
F = open(json.__file__, "rb", buffering=0)
def used():
    F.read(1)
    return F.tell()
""",
    "a semaphore": """
import multiprocessing
S = multiprocessing.Semaphore(9)
def used():
    S.acquire()
    return 9 - S.get_value()
""",
    "memory of a file that is closed": """
import ctypes, os
file = os.open("/tmp/m", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 4096)
mmap = ctypes.CDLL(None).mmap
mmap.restype = ctypes.c_void_p
mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
M = ctypes.c_int.from_address(mmap(None, 4096, 3, 1, file, 0))
os.close(file)
os.unlink("/tmp/m")
def used():
    M.value += 1
    return M.value
""",
}


@BOTH
@pytest.mark.parametrize("left", _LEFT_OPEN)
def test_what_a_module_body_leaves_open_joins_no_completions_and_no_batches(
    left: str, isolation: Any, pool: Pool
) -> None:
    grader = GraderSource(f"{_LEFT_OPEN[left]}\nasync def grade(thread):\n    return float(used())\n", isolation)
    expected = [1.0, 2.0, 3.0] if isolation == "batch" else [1.0] * 3
    assert [kinds(score(pool, grader, [_LINE] * 3)) for _ in range(2)] == [expected] * 2


@BOTH
def test_what_ended_a_completion_is_told_if_the_module_body_left_something_open(isolation: Any, pool: Pool) -> None:
    ends = "import os\nasync def grade(t):\n    'end' in t.completion() and os.kill(os.getpid(), 9)\n    return 1.0\n"
    before = told(pool, "sandboxes_ended", why="tainted")
    outcomes = score(pool, GraderSource(_LEFT_OPEN["a pipe"] + ends, isolation), [line("end"), line("end")])
    assert [one.error and one.error.message for one in outcomes] == ["the process was ended by SIGKILL"] * 2
    assert told(pool, "sandboxes_ended", why="tainted") - before <= 4  # each is graded twice


@pytest.mark.parametrize(("left", "sandboxes"), [("", 0), (f"{_LEFT_OPEN['a semaphore']}\n", 2)])
def test_files_with_names_are_there_for_the_next_process(left: str, sandboxes: int, pool: Pool) -> None:
    ends = "async def grade(t):\n    'end' in t.completion() and os._exit(1)\n    return os.path.exists(NAME)\n"
    grader = GraderSource(f"{left}import os, tempfile\nNAME = tempfile.mkdtemp()\n{ends}", "batch")
    before = told(pool, "sandboxes_ended", why="tainted")
    with pool.grading(grader) as grading:
        assert kinds(grading.score(b"\n".join((_LINE, line("end"), _LINE)), 0, "g@1")) == [1.0, "crash", 1.0]
        assert told(pool, "sandboxes_ended", why="tainted") == before + sandboxes


@pytest.mark.parametrize(
    ("made", "held", "taken", "freed"),
    [
        ("tempfile.mkdtemp() + '/lock'", "os.path.exists(NAME)", "open(NAME, 'w').close()", "os.unlink(NAME)"),
        ("tempfile.mktemp()\nos.close(os.open(NAME, os.O_CREAT))", "os.path.getsize(NAME)",
         "os.truncate(NAME, 1)", "os.truncate(NAME, 0)"),
    ],
    ids=["in a folder", "in a file"],
)  # fmt: skip
def test_a_lock_of_a_process_that_crashed_is_not_there_for_the_next(
    made: str, held: str, taken: str, freed: str, pool: Pool
) -> None:
    locks = f"""import os, tempfile
NAME = {made}
async def grade(thread):
    if {held}:
        return 0.0
    {taken}
    'end' in thread.completion() and os._exit(1)
    {freed}
    return 1.0
"""
    assert kinds(score(pool, GraderSource(locks, "batch"), [_LINE, line("end"), _LINE])) == [1.0, "crash", 1.0]


def test_a_grader_that_is_loaded_for_each_completion_is_warned_of(pool: Pool) -> None:
    report = pool.prove(GraderSource(_LEFT_OPEN["a pipe"] + source(1.0).text, "completion"))
    assert report.valid
    assert any("runs anew for each completion" in warning for warning in report.warnings)


@BOTH
def test_output_up_to_the_largest_limit_is_kept(isolation: Any, pool: Pool) -> None:
    text = f"async def grade(thread):\n    print('x' * {MAX_STDOUT_BYTES}, end='')\n    return 1.0\n"
    grader = GraderSource(text, isolation, stdout_bytes=MAX_STDOUT_BYTES)
    outcomes = score(pool, grader, [_LINE] * (500 if isolation == "batch" else 50))
    assert {len(outcome.stdout or "") for outcome in outcomes} == {MAX_STDOUT_BYTES}


# Searches all Python objects, also those older than the grader, for the text of another completion.
_SEARCHES = """
import gc, os, signal

async def grade(thread):
    if thread.completion() == "kill":
        os.kill(os.getppid(), signal.SIGKILL)
    needle = b"".join([b"xq7", b"vz9"])
    gc.unfreeze()
    known = gc.get_objects()
    texts = [text for one in known for text in gc.get_referents(one) if type(text) in (bytes, bytearray, str)]
    others = [text for text in texts if text is not needle]
    read = [text.encode("utf-8", "surrogatepass") if type(text) is str else text for text in others]
    return float(sum(needle in text for text in read))
"""


@pytest.mark.parametrize("body", ["", "import tempfile\nkept = tempfile.TemporaryFile()"])
def test_a_grader_that_is_loaded_again_finds_no_other_completion(body: str, pool: Pool) -> None:
    """A second template would be a copy of the supervisor, which has read all completions of the chunk."""
    lines = [*map(line, ("look", "kill", "look", "look", "xq7vz9"))]
    before = [told(pool, "sandboxes_ended", why=why) for why in ("tainted", "crash")]
    outcomes = score(pool, GraderSource(body + _SEARCHES, "completion"), lines)
    assert [one.score for one in outcomes[:4]] == [0.0, None, 0.0, 0.0]
    assert outcomes[4].score != 0.0  # it finds its own text
    killed = outcomes[1].error
    assert killed is not None and killed.kind == "crash"
    assert "the process that had loaded the grader" in killed.message
    after = [told(pool, "sandboxes_ended", why=why) for why in ("tainted", "crash")]
    assert after[0] > before[0]
    assert after[1] == before[1]


def test_loaded_sandboxes_that_died_while_nobody_used_them_cost_no_score(pool: Pool) -> None:
    """All sandboxes of a zygote end with it: each that a call took would count as a crash of its first thread."""
    with ExitStack() as lent:
        gradings = [lent.enter_context(pool.grading(source(0.5, "dies"))) for _ in range(5)]
        assert [one.score(_LINE, 0, "g@1")[0].score for one in gradings] == [0.5] * 5
        pids = [pid_of(one) for one in gradings]
    time.sleep(0.3)  # they are reset
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(map(runs, pids)))
    assert kinds(score(pool, source(0.5, "dies"), [_LINE])) == [0.5]


_KILLS = "import os, signal\nasync def grade(thread):\n    os.kill(os.getppid(), signal.SIGKILL)\n    return 0.5\n"


def test_a_completion_that_kills_what_loaded_the_grader_has_no_score_however_fast_it_is(pool: Pool) -> None:
    """Its record arrives about when the death does: a score that depended on the moment would be a different number."""
    assert [kinds(score(pool, GraderSource(_KILLS, "completion"), [_LINE])) for _ in range(3)] == [["crash"]] * 3


_SLEEPS = "import time\nasync def grade(thread):\n    time.sleep(20)\n    return {}.0\n"


def test_one_project_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow calls of one project hold half of the sandboxes. Its calls that wait too long fail with the reason."""
    monkeypatch.setattr(pool_module, "WAIT_S", 2.0)
    over = threading.Event()

    def hold(number: int) -> None:
        sleeps = GraderSource(_SLEEPS.format(number), timeout_s=60.0, project="slow")
        with pool.grading(sleeps) as grading:
            grading.score(_LINE, 0, "slow@1", stop=lambda _: over.is_set())

    with ThreadPoolExecutor(4) as threads, counted(most_sandboxes=4, warm_sandboxes=1) as (_, pool):
        slow = [threads.submit(hold, number) for number in range(4)]
        eventually(lambda: pool._shares._held == {"slow": 2})
        for number in range(3):
            began = time.monotonic()
            assert grade(pool, source(number, f"other{number}"))[0] == float(number)
            assert time.monotonic() - began < 20
        eventually(lambda: sum(call.done() for call in slow) == 2)
        over.set()
        assert not wait(slow, 3).not_done
        refused = [error for call in slow if (error := call.exception())]
        assert [isinstance(error, Busy) and error.is_own for error in refused] == [True, True]
        assert "this project has had all 2 sandboxes" in str(refused[0])
        assert pool._shares._held == {}


def test_who_waits_for_a_sandbox_is_told_when_the_pool_closes() -> None:
    with (
        ThreadPoolExecutor(1) as threads,
        counted(most_sandboxes=1) as (_, pool),
        pool.grading(source(1)) as grading,
        pytest.raises(InfrastructureError, match=r"^the service is stopping$"),
    ):
        assert pid_of(grading)
        waiting = threads.submit(grade, pool, source(2))
        time.sleep(0.3)
        pool.close()
        waiting.result(2)


def test_idle_graders_leave_memory_to_those_in_use() -> None:
    large = "HELD = bytearray(150 << 20)\nHELD[::4096] = b'x' * len(HELD[::4096])\n"
    with counted(sandboxes_memory_mb=600) as (backend, pool):
        small = grade(pool, source(1))[1]
        for number in (2, 3):
            grade(pool, GraderSource(large + source(number).text))
        assert len(backend.alive()) == 3
        with pool.grading(source(4)) as grading:  # it may use up to 304 MiB
            pid_of(grading)
            eventually(lambda: len(backend.alive()) == 3, 8.0)
            time.sleep(2)
            assert len(backend.alive()) == 3  # only one large one was closed
            assert small in backend.alive()


def test_graders_in_use_share_the_memory() -> None:
    with ThreadPoolExecutor(1) as threads, counted(sandboxes_memory_mb=1000) as (_, pool):
        with pool.grading(source(1)) as one:
            assert pid_of(one)
            waiting = threads.submit(grade, pool, source(2))
            time.sleep(0.5)
            assert not waiting.done()  # 2 x 304 MiB is more than half
            with pool.grading(source(3, "other")) as other:
                assert pid_of(other)
        assert waiting.result()[0] == 2.0
