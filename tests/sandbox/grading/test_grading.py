"""Tests that each line has one right outcome, even if the sandbox fails meanwhile."""

import errno
import gc
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gradebox.outcome import Outcome
from gradebox.schemas import Isolation
from sandbox.errors import InfrastructureError
from sandbox.grader_source import GraderSource
from sandbox.grading import session as session_module
from sandbox.grading.grading import Grading
from sandbox.grading.grading_call import GradingCall
from sandbox.kernel.process_tree import family
from sandbox.limits import STDOUT_BYTES
from sandbox.pool.pool import Pool, open_pool
from sandbox.settings import SandboxSettings
from tests.sandbox.scoring import BOTH, LENGTH, kinds, line, score

pytestmark = pytest.mark.sandbox

_ODD = """
import os, time

async def grade(thread):
    print("got", thread.completion()[:10])
    match thread.completion():
        case "hang":
            while True:
                pass
        case "flood":
            while True:
                print("x" * 1000)
        case "crash":
            os._exit(3)
        case "slow":
            time.sleep(0.05)
    return len(thread.completion())
"""


@BOTH
def test_a_sandbox_that_cannot_fork_blames_nobody(isolation: Any, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    with pool.grading(GraderSource(LENGTH, isolation)) as grading:
        with monkeypatch.context() as patched:
            patched.setattr(pool.settings, "processes", -1)  # the supervisor and the template are all
            with pytest.raises(InfrastructureError, match=r"could not start a process .*temporarily unavailable"):
                grading.score(line("one"), 0, "g@1")
        assert kinds(grading.score(line("one"), 0, "g@1")) == [3.0]


@BOTH
def test_a_body_whose_threads_take_all_is_to_blame(isolation: Any, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool.settings, "processes", 0)  # room for the supervisor, the template and one more
    threads = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    assert kinds(score(pool, GraderSource(threads + LENGTH, isolation), [line("one")])) == ["crash"]


@BOTH
def test_a_sandbox_that_is_killed_from_outside_costs_no_thread_its_score(isolation: Any, pool: Pool) -> None:
    expected = [4.0 if number % 10 == 0 else float(number) for number in range(60)]
    lines = [line("slow" if number % 10 == 0 else "x" * number) for number in range(60)]
    with pool.grading(GraderSource(_ODD, isolation)) as grading:
        killed = grading.session.sandbox
        killer = threading.Timer(0.1, os.kill, (killed.pid, signal.SIGKILL))
        killer.start()
        outcomes = grading.score(b"\n".join(lines), 0, "g@1")
        killer.join()
        assert grading.session.sandbox is not killed
    assert [outcome.index for outcome in outcomes] == list(range(60))
    assert kinds(outcomes) == expected


@BOTH
def test_a_sandbox_of_groups_that_is_killed_from_outside_costs_no_group_its_scores(isolation: Any, pool: Pool) -> None:
    source = """
import time

async def grade(threads: list[StringThread]) -> list[float]:
    time.sleep(0.02)
    return [float(len(thread.completion())) for thread in threads]
"""
    lines = [json.dumps({"completions": ["x" * n for n in range(1, number % 4 + 2)]}).encode() for number in range(40)]
    with pool.grading(GraderSource(source, isolation)) as grading:
        killer = threading.Timer(0.2, os.kill, (grading.session.sandbox.pid, signal.SIGKILL))
        killer.start()
        outcomes = grading.score(b"\n".join(lines), 3, "g@1")
        killer.join()
    assert [outcome.index for outcome in outcomes] == list(range(3, 43))
    for number, outcome in enumerate(outcomes):
        assert outcome.scores == [float(n) for n in range(1, number % 4 + 2)]


@BOTH
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("killed", [(1,), (2,), (1, 2)], ids=["what loaded the grader", "what grades", "both"])
def test_processes_inside_that_are_killed_from_outside_cost_no_score(
    isolation: Any, killed: tuple[int, ...], number: int, pool: Pool
) -> None:
    """The kernel's OOM killer may choose any of them, as may a person, or what stops a service."""
    with pool.grading(GraderSource(_NAPS, isolation)) as grading:
        first, dead = grading.session.sandbox.pid, list[int]()

        def kill_once(done: int) -> bool:
            if 1 < done < 5 and not dead:
                while len(pids := family(first)) <= killed[-1]:  # in completion isolation, each line starts a process
                    time.sleep(0.01)
                for place in reversed(killed):  # what grades ends with what loaded the grader
                    os.kill(pids[place], number)
                    dead.append(pids[place])
            return False

        outcomes = grading.score(b"\n".join(line("x" * number) for number in range(5)), 0, "g@1", stop=kill_once)
        assert len(dead) == len(killed)
    assert kinds(outcomes) == [0.0, 1.0, 2.0, 3.0, 4.0]


_COMPUTES = """
import time

async def grade(thread):
    while time.process_time() < 0.4:
        pass
    return len(thread.completion())
"""


@BOTH
def test_a_pause_of_all_processes_costs_no_score(isolation: Any, pool: Pool) -> None:
    """As by `docker pause`. The clock goes on, and the completion is not done when the processes continue."""
    with pool.grading(GraderSource(_COMPUTES, isolation, timeout_s=3.0)) as grading:
        first = grading.session.sandbox.pid
        pausing = threading.Timer(0.15, _pause, (first, 3.5))
        pausing.start()
        outcomes = grading.score(line("abc"), 0, "g@1")
        pausing.join()
        assert grading.session.sandbox.pid == first
    assert kinds(outcomes) == [3.0]


def _pause(pid: int, seconds: float) -> None:
    pids = family(pid)
    for one in pids:
        os.kill(one, signal.SIGSTOP)
    time.sleep(seconds)
    for one in pids:
        os.kill(one, signal.SIGCONT)


_ENDS_LATER = """
import os, signal, threading, time

async def grade(thread):
    later, parent, own = threading.Timer, os.getppid(), os.getpid()
    match thread.completion():
        case "exit":
            later(0.05, os._exit, (3,)).start()
        case "kill":
            later(0.05, os.kill, (own, signal.SIGKILL)).start()
        case "orphan":
            later(0.05, os.kill, (parent, signal.SIGKILL)).start()
        case "fork" if not os.fork():
            os.setsid()
            time.sleep(0.05)
            os.kill(parent, signal.SIGKILL)
            os._exit(0)
        case "files":
            for number in range(1100):
                open(f"/tmp/{number}", "w").close()
        case _:
            time.sleep(0.03)
    return 1.0
"""


@pytest.mark.parametrize("way", ["exit", "kill", "orphan", "fork", "files"])
def test_what_a_completion_does_after_its_score_costs_no_other_its_score(way: str, pool: Pool) -> None:
    """With batch isolation, another completion is graded in that process then, and would have a final `crash`."""
    outcomes = score(pool, GraderSource(_ENDS_LATER, "batch"), [line("ok"), line(way), *[line("ok")] * 6])
    assert kinds(outcomes)[:1] + kinds(outcomes)[2:] == [1.0] * 7


_KEEPS = "K = []\nasync def grade(thread):\n    K.append(bytearray(int(thread.completion()) << 20))\n    return 1.0\n"


def test_memory_that_earlier_completions_keep_costs_no_score(pool: Pool) -> None:
    with pool.grading(GraderSource(_KEEPS, "batch")) as grading:
        outcomes = [grading.score(b"\n".join([line("40")] * 9 + [line("900")]), 0, "g@1") for _ in range(2)]
    assert [kinds(each) for each in outcomes] == [[1.0] * 9 + ["memory"]] * 2


@BOTH
@pytest.mark.parametrize("way", ["os._exit(3)", "os.kill(os.getpid(), 9)", "os.kill(os.getppid(), 9); time.sleep(9)"])
def test_what_always_ends_its_process_is_a_crash_and_others_have_scores(isolation: Any, way: str, pool: Pool) -> None:
    source = f"import os, time\nasync def grade(thread):\n    if thread.completion():\n        {way}\n    return 1.0\n"
    lines = [line(text) for text in ("", "", "ends", "", "ends", "ends", "")]
    outcomes = score(pool, GraderSource(source, isolation), lines)
    assert kinds(outcomes) == [1.0, 1.0, "crash", 1.0, "crash", "crash", 1.0]


@BOTH
def test_what_a_grader_replaces_of_ours_is_in_no_outcome(isolation: Any, pool: Pool) -> None:
    source = """
import os
StringThread.completion = lambda thread: thread.last_content().strip()
async def grade(thread):
    os._exit = None
    return len(thread.completion())
"""
    outcomes = score(pool, GraderSource(source, isolation), [line(" ab "), b'{"messages": []}', line("a")])
    assert kinds(outcomes) == [2.0, "exception", 1.0]
    assert [outcome.stdout for outcome in outcomes] == [None] * 3
    assert [outcome.no_completion for outcome in outcomes] == [False, True, False]


def test_a_grader_that_lets_no_process_start_is_a_crash_at_once(pool: Pool) -> None:
    body = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))\n"
    began, source = time.monotonic(), GraderSource(body + LENGTH, "batch", timeout_s=20.0)
    assert kinds(score(pool, source, [line("a"), line("b")])) == ["crash", "crash"]
    assert time.monotonic() - began < 20


@BOTH
def test_all_that_loaded_graders_may_die_at_once(isolation: Any, pool: Pool) -> None:
    payload = b"\n".join(line("x" * number) for number in range(6))
    with ExitStack() as lent, ThreadPoolExecutor(3) as threads:
        gradings = [lent.enter_context(pool.grading(GraderSource(_NAPS, isolation))) for _ in range(3)]
        pids = [grading.session.sandbox.pid for grading in gradings]
        calls = [threads.submit(grading.score, payload, 0, "g@1") for grading in gradings]
        time.sleep(0.8)
        for template in [family(pid)[1] for pid in pids]:
            os.kill(template, signal.SIGKILL)
        assert [kinds(call.result()) for call in calls] == [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]] * 3


def test_a_thread_whose_sandbox_is_killed_thrice_from_outside_has_its_score(pool: Pool) -> None:
    with pool.grading(GraderSource(_NAPS)) as grading, _killing(grading, 3) as killed:
        outcomes = grading.score(line("abc", id="mine"), 0, "g@1")
    assert len(killed) == 3
    assert (kinds(outcomes), outcomes[0].id) == ([3.0], "mine")


def test_a_thread_whose_sandbox_always_ends_is_a_crash_with_its_id(pool: Pool) -> None:
    with pool.grading(GraderSource(_NAPS)) as grading, _killing(grading, 4) as killed:
        outcomes = grading.score(b"\n".join([line("abc", id="mine"), line("ab", id=7)]), 0, "g@1")
    assert len(killed) == 4
    assert kinds(outcomes) == ["crash", 2.0]
    assert [outcome.id for outcome in outcomes] == ["mine", 7]


@contextmanager
def _killing(grading: Grading, times: int) -> Iterator[list[int]]:
    """Kills the first `times` sandboxes that grade, each while it grades the first thread."""
    killed: list[int] = []
    is_over = threading.Event()

    def kill() -> None:
        while len(killed) < times and not is_over.wait(0.1):  # a completion takes longer
            session = grading._session
            if session is not None and session.loaded is not None and session.sandbox.pid not in killed:
                os.kill(session.sandbox.pid, signal.SIGKILL)
                killed.append(session.sandbox.pid)

    grading.load()
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        is_over.set()
        killer.join()


def test_a_sandbox_that_is_killed_before_a_chunk_is_replaced(pool: Pool) -> None:
    with pool.grading(GraderSource(LENGTH)) as grading:
        killed = grading.session.sandbox
        os.kill(killed.pid, signal.SIGKILL)
        assert kinds(grading.score(line("abc"), 0, "g@1")) == [3.0]


def test_a_thread_that_one_completion_leaves_costs_no_other_its_time(pool: Pool) -> None:
    source = """
import threading, time
lock = threading.Lock()
async def grade(thread):
    if thread.completion() == "leaves":
        threading.Thread(target=lambda: lock.acquire() and time.sleep(60), daemon=True).start()
        while not lock.locked():
            time.sleep(0.01)
    else:
        lock.acquire()
    return 1.0
"""
    outcomes = score(pool, GraderSource(source, "batch", timeout_s=0.5), [line("leaves"), line("waits"), line("waits")])
    assert kinds(outcomes) == [1.0, 1.0, "timeout"]  # the last one waits for a lock that no other thread has


@pytest.mark.parametrize(
    ("does", "scores"),
    [
        ("for task in asyncio.all_tasks():\n            task.cancel()", [0.5, 0.0, 0.0]),
        ("loop.call_later(0.01, own.cancel); loop.call_later(0.01, print, 'late')", [0.5, 0.0, 0.0]),
        ("threading.Timer(0.01, loop.call_soon_threadsafe, [own.cancel]).start()", [0.5, 0.0, 0.0]),
        ("asyncio.create_task(stubborn()); await asyncio.sleep(0)", [0.5, 0.0, 0.0]),
        ("[task.cancel() for task in asyncio.all_tasks() if task is not own]", [0.5, 0.0, 0.0]),
        ("loop.stop()", [0.5, 0.0, 0.0]),
        ("raise SystemExit", ["exception", 0.0, 0.0]),
        ("kept.set(1.0)", [0.5, 0.0, 0.0]),
        ("async for _ in borrowed():\n            break", [0.5, 0.0, 0.0]),
        ("loop.add_writer(1, print, 'late')", [0.5, 0.0, 0.0]),
        ("await connected_after_watching(loop)", [0.5, 0.0, 0.0]),
        ("again()", [0.5, 0.0, 0.0]),
        ("loop.set_task_factory(lambda *_, **__: None)", [0.5, 0.0, 0.0]),
        ("loop.set_exception_handler(print); loop.set_debug(True)", [0.5, 0.0, 0.0]),
        ("executor = ThreadPoolExecutor(); loop.set_default_executor(executor); executor.shutdown()", [0.5, 0.0, 0.0]),
        ("await loop.shutdown_default_executor()", [0.5, 0.0, 0.0]),
    ],
)
def test_what_one_does_in_the_event_loop_costs_no_other_its_score(does: str, scores: list[Any], pool: Pool) -> None:
    source = f"""
import asyncio, contextvars, socket, threading
from concurrent.futures import ThreadPoolExecutor
kept = contextvars.ContextVar("kept", default=0.0)
free = [1]
async def borrowed():
    try:
        yield free.pop()
    finally:
        await asyncio.sleep(0)
        free.append(1)
async def stubborn():
    while True:
        try:
            await asyncio.sleep(0.01)
            print("late")
        except asyncio.CancelledError:
            pass
turns, connected = [], []
def again():
    asyncio.get_running_loop().call_soon(again)
    turns.append(1)
    if len(turns) > 100:
        print("late")
async def connected_after_watching(loop):
    one, other = socket.socketpair()
    loop.add_reader(one, print, "late")
    loop.remove_reader(one)
    connected.extend([*await asyncio.open_connection(sock=one), other])
async def grade(thread):
    loop, own = asyncio.get_running_loop(), asyncio.current_task()
    if thread.completion() == "leaves":
        {does}
        return 0.5
    await asyncio.create_task(asyncio.sleep(0.03))
    await asyncio.to_thread(int)
    if connected:
        reader, _, other = connected
        other.send(b"x")
        await reader.readexactly(1)
    changed = own.cancelling() or loop.get_debug() or loop.get_exception_handler()
    return bool(changed) + kept.get() + 1 - len(free)
"""
    outcomes = score(pool, GraderSource(source, "batch"), [line("leaves"), line("waits"), line("waits")])
    assert kinds(outcomes) == scores
    assert [outcome.stdout for outcome in outcomes] == [None] * 3


@pytest.mark.parametrize("left", ["create_task(outer())", "current_task().cancel()"])
def test_what_a_task_does_when_it_is_ended_is_of_its_completion(left: str, pool: Pool) -> None:
    source = f"""
import asyncio
async def waits():
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0)
        print("ended")
async def outer():
    await asyncio.create_task(waits())
    print("never")
async def yields():
    try:
        yield 0.0
        yield 1.0
    finally:
        print("closed")
async def grade(thread):
    if thread.completion() == "leaves":
        asyncio.create_task(outer())
        await asyncio.sleep(0.01)
        asyncio.{left}
        async for number in yields():
            return number
    await asyncio.sleep(0.01)
    return 0.0
"""
    leaves, other = score(pool, GraderSource(source, "batch"), [line("leaves"), line("other")])
    assert (set((leaves.stdout or "").split()), other.stdout) == ({"ended", "closed"}, None)


def test_a_process_that_grade_forked_ends_without_a_word(pool: Pool) -> None:
    """It has no event loop to end tasks in. Its traceback, with frames of ours, was in the completion's output."""
    source = """
import asyncio, os
async def grade(thread):
    await asyncio.sleep(0)
    forked = os.fork()
    if forked:
        os.waitpid(forked, 0)
    return 1.0
"""
    outcomes = score(pool, GraderSource(source, "batch"), [line("a"), line("b")])
    assert [(outcome.score, outcome.stdout) for outcome in outcomes] == [(1.0, None)] * 2


def test_code_that_runs_when_a_result_is_deleted_is_of_its_completion(pool: Pool) -> None:
    source = """
from gradebox import Score
class Told(Score):
    def __del__(self):
        print("deleted")
async def grade(thread):
    return Told(1.0) if thread.completion() == "told" else 0.0
"""
    told, other = score(pool, GraderSource(source, "batch"), [line("told"), line("other")])
    assert (told.stdout, other.stdout) == ("deleted\n", None)


@pytest.mark.parametrize(("isolation", "after"), [("batch", ["next"]), ("completion", [])])
def test_completions_that_end_just_after_a_time_was_over_have_all_their_own_output_and_no_more(
    isolation: Any, after: list[str], pool: Pool
) -> None:
    """The supervisor asks where one is by the same signal, which may be late and interrupt the next."""
    source = """
import os, signal, time
async def grade(thread):
    print("its", end="")
    time.sleep(0.35 if thread.completion() == "slow" else 0)
    os.kill(os.getpid(), signal.SIGRTMAX)
    print(" own")
    return 1.0
"""
    lines = [line(each) for each in ["slow", *after]]
    outcomes = score(pool, GraderSource(source, isolation, timeout_s=0.5), lines)
    assert [(outcome.score, outcome.stdout) for outcome in outcomes] == [(1.0, "its own\n")] * len(lines)


@pytest.mark.parametrize("does", ["sys.stdout = io.StringIO()", "sys.stderr.close()"])
def test_a_stream_that_one_completion_replaces_or_closes_is_there_for_the_next(does: str, pool: Pool) -> None:
    source = f"""
import io, sys
class Both(io.StringIO):
    def write(self, text):
        return sys.__stdout__.write(text.upper())
sys.stdout = Both()
async def grade(thread):
    print("own")
    print("error", file=sys.stderr)
    if thread.completion() == "leaves":
        {does}
    return 1.0
"""
    outcomes = score(pool, GraderSource(source, "batch"), [line("leaves"), line("prints")])
    assert [(outcome.score, outcome.stdout) for outcome in outcomes] == [(1.0, "OWN\nerror\n")] * 2


@BOTH
def test_malformed_lines_are_errors_at_their_places(isolation: Any, pool: Pool) -> None:
    lines = [line("a"), b"{", line("ab"), b"", b"[1]", line("abc"), b'{"completion": 3}', b"\xff\xfe", line("abcd")]
    outcomes = score(pool, GraderSource(LENGTH, isolation), lines, first_index=70)
    bad = "bad_input"
    assert kinds(outcomes) == [1.0, bad, 2.0, bad, bad, 3.0, bad, bad, 4.0]
    assert [outcome.index for outcome in outcomes] == list(range(70, 79))
    assert all(outcome.error.message for outcome in outcomes if outcome.error)


@BOTH
def test_what_a_timed_out_completion_printed_is_kept_and_cut(isolation: Any, pool: Pool) -> None:
    lines = [line("a"), line("flood"), line("hang"), line("ab")]
    outcomes = score(pool, GraderSource(_ODD, isolation, timeout_s=0.5), lines)
    assert kinds(outcomes) == [1.0, "timeout", "timeout", 2.0]
    first, flood, hang, last = [outcome.stdout or "" for outcome in outcomes]
    assert [first, hang, last] == ["got a\n", "got hang\n", "got ab\n"]
    assert flood.startswith("got flood\nxxx")
    assert STDOUT_BYTES - 100 < len(flood) < STDOUT_BYTES + 100


@BOTH
def test_ids_are_kept_whatever_a_thread_comes_to(isolation: Any, pool: Pool) -> None:
    ids: list[Any] = ["a-1", 17, None, "ünï", -(1 << 62), "c", 0, "h", "", "\U0001f600"]
    completions: list[Any] = ["x", "x", "x", "x", "x", "crash", "crash", "hang", "x", 3]
    lines = [line(text, id=identity) for text, identity in zip(completions, ids, strict=True)]
    outcomes = score(pool, GraderSource(_ODD, isolation, timeout_s=0.5), lines)
    assert kinds(outcomes) == [1.0] * 5 + ["crash", "crash", "timeout", 1.0, "bad_input"]
    assert 450 < outcomes[7].run_ms < 2500
    assert [outcome.id for outcome in outcomes] == ids


def test_a_grader_that_cannot_be_loaded_gives_errors_and_never_zeros(pool: Pool) -> None:
    outcomes = score(pool, GraderSource("1 / 0\n" + LENGTH), [line("a", id="x"), line("b", id=2)], first_index=5)
    assert [outcome.id for outcome in outcomes] == ["x", 2]
    assert kinds(outcomes) == ["exception", "exception"]
    assert [outcome.index for outcome in outcomes] == [5, 6]
    assert "could not be loaded" in str(outcomes[0].error)


def test_a_process_that_is_killed_at_each_load_is_not_the_graders_error(pool: Pool) -> None:
    """A stored version was proved valid, so something else kills it, such as the kernel's OOM killer."""
    with pytest.raises(InfrastructureError, match="could not be loaded in 2 sandboxes: while it ran, the process"):
        score(pool, GraderSource("import os\nos.kill(os.getpid(), 9)\n" + LENGTH), [line("a")])


def test_no_lines_no_outcomes(pool: Pool) -> None:
    assert score(pool, GraderSource(LENGTH), []) == []


def test_a_call_that_is_over_holds_nothing_until_garbage_is_collected(pool: Pool) -> None:
    gc.collect()
    gc.disable()
    try:
        with pool.grading(GraderSource(LENGTH)) as grading:
            assert kinds(grading.score(line("abc"), 0, "g@1", stop=lambda done: False)) == [3.0]
            assert not [one for one in gc.get_objects() if type(one) is GradingCall]
    finally:
        gc.enable()


_NAPS = "import time\nasync def grade(thread):\n    time.sleep(0.3)\n    return len(thread.completion())\n"


@pytest.mark.alone
@BOTH
def test_a_caller_that_wants_no_more_has_what_there_is(isolation: Any, pool: Pool) -> None:
    asked: list[tuple[int, float]] = []

    def stop(done: int) -> bool:
        asked.append((done, time.monotonic()))
        return done >= 2

    with pool.grading(GraderSource(_NAPS, isolation)) as grading:
        sandbox = grading.session.sandbox
        outcomes = grading.score(b"\n".join([line("abc")] * 20), 4, "g@1", stop=stop)
        assert kinds(outcomes) == [3.0] * len(outcomes)
        assert 2 <= len(outcomes) < 5
        assert [outcome.index for outcome in outcomes] == list(range(4, 4 + len(outcomes)))
        times = [at for _, at in asked]
        assert max(after - before for before, after in itertools.pairwise(times)) < 0.5  # 0.25 s, plus other load
        assert not Path(f"/proc/{sandbox.pid}").exists()
        assert kinds(grading.score(line("ab"), 0, "g@1")) == [2.0]  # another replaces it


@BOTH
def test_a_grader_that_sleeps_is_stopped_at_once(isolation: Any, pool: Pool) -> None:
    sleeps = "import time\nasync def grade(thread):\n    time.sleep(30)\n    return 1.0\n"
    with pool.grading(GraderSource(sleeps, isolation, timeout_s=60.0)) as grading:
        assert grading.session.loaded is not None
        began = time.monotonic()
        outcomes = grading.score(line("a"), 0, "g@1", stop=lambda _: time.monotonic() - began > 0.5)
        assert outcomes == []
        assert time.monotonic() - began < 10


def test_a_module_body_that_sleeps_is_stopped_at_once(pool: Pool) -> None:
    began = time.monotonic()
    with pool.grading(GraderSource("import time\ntime.sleep(8)\n" + LENGTH)) as grading:
        assert grading.score(line("a"), 0, "g@1", stop=lambda _: time.monotonic() - began > 0.5) == []
    assert time.monotonic() - began < 6


_KILLS_ITS_SANDBOX = """
import os, signal, time
{}
async def grade(thread):
    if thread.completion() == "kill":
        os.kill(os.getppid(), signal.SIGKILL)
    return 1.0
"""


@pytest.mark.alone
def test_scores_that_were_there_are_kept_when_the_grader_cannot_be_loaded_again(pool: Pool) -> None:
    body = f"if time.time() > {time.time() + 2.0}:\n    raise RuntimeError('not now')"
    with pool.grading(GraderSource(_KILLS_ITS_SANDBOX.format(body), "completion")) as grading:
        assert grading.session.loaded is not None
        time.sleep(2.2)
        lines = [line("ok")] * 5 + [line("kill")] + [line("ok")] * 2
        outcomes = grading.score(b"\n".join(lines), 0, "g@1")
        assert kinds(outcomes)[:5] == [1.0] * 5
        assert set(kinds(outcomes)[6:]) == {"exception"}  # it was loaded twice, and raised both times
        assert "RuntimeError: not now" in str(outcomes[-1].error)
        assert [outcome.index for outcome in outcomes] == list(range(8))
        began = time.monotonic()
        assert kinds(grading.score(line("ok"), 0, "g@1")) == ["exception"]
        assert time.monotonic() - began < 0.1  # it is not loaded again


@pytest.fixture
def quick_pool() -> Iterator[Pool]:
    """A pool that allows graders little time to load."""
    with open_pool(SandboxSettings(load_s=0.6, warm_sandboxes=0)) as opened:
        yield opened


def test_a_load_that_takes_too_long_is_not_the_graders_error(quick_pool: Pool) -> None:
    """A stored version was proved valid, so a slow load means that the machine is busy."""
    source = GraderSource("import time\ntime.sleep(1.0)\n" + LENGTH, "batch")
    said = "could not be loaded in 2 sandboxes"
    with pytest.raises(InfrastructureError, match=said), quick_pool.grading(source) as grading:
        grading.score(line("a"), 0, "g@1")
    assert quick_pool.counts.registry.get_sample_value("gradebox_sandboxes_started_total", {"role": ""}) == 2


def test_a_load_that_takes_too_long_once_is_tried_again(quick_pool: Pool) -> None:
    until = time.time() + 1.2  # as if the machine were busy at the first load only
    body = f"import time\ntime.sleep(9 if time.time() < {until - 0.3} else 0)\n"
    time.sleep(0.3)
    assert kinds(score(quick_pool, GraderSource(body + LENGTH, "batch"), [line("abc")])) == [3.0]


def test_a_load_that_takes_too_long_in_the_middle_leaves_errors_that_may_be_retried(quick_pool: Pool) -> None:
    body = f"time.sleep(9 if time.time() > {time.time() + 1.5} else 0)"
    with quick_pool.grading(GraderSource(_KILLS_ITS_SANDBOX.format(body), "completion")) as grading:
        assert grading.session.loaded is not None
        time.sleep(1.6)
        outcomes = grading.score(b"\n".join([line("ok"), line("ok"), line("kill"), line("ok")]), 0, "g@1")
    assert kinds(outcomes)[:2] == [1.0, 1.0]
    assert kinds(outcomes)[3] == "infrastructure"
    assert [one.error.retryable for one in outcomes if one.error and one.error.kind == "infrastructure"]
    assert all(one.error.retryable for one in outcomes if one.error and one.error.kind == "infrastructure")


def test_a_machine_without_descriptors_costs_no_score(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    with pool.grading(GraderSource(_ODD, "completion")) as grading:
        killed = grading.session.sandbox
        outcomes: list[Outcome] = []

        def none_left(name: str, flags: int) -> int:
            raise OSError(errno.EMFILE, "no descriptors left")

        def stop(done: int) -> bool:
            if done == 3:
                monkeypatch.setattr(os, "memfd_create", none_left)
                os.kill(killed.pid, signal.SIGKILL)
            return False

        outcomes = grading.score(b"\n".join([line("slow")] * 9), 0, "g@1", stop=stop)
        monkeypatch.undo()
    assert kinds(outcomes)[:3] == [4.0] * 3
    assert set(kinds(outcomes)[3:]) <= {4.0, "infrastructure"}
    assert kinds(outcomes)[-1] == "infrastructure"


def test_a_sandbox_that_is_stopped_is_tried_again(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """If its pid 1 is stopped or the machine freezes, the graded thread is not the cause."""
    monkeypatch.setattr(session_module, "_SLACK_S", 0.1)
    with pool.grading(GraderSource(LENGTH, "batch", timeout_s=0.5)) as grading:
        sandbox = grading.session.sandbox
        limits = grading.session.limits
        monkeypatch.setattr(grading.session, "limits", limits._replace(load_ms=100))
        os.kill(sandbox.pid, signal.SIGSTOP)
        assert kinds(grading.score(b"\n".join([line("abc")] * 3), 0, "g@1")) == [3.0] * 3


@pytest.mark.alone
@pytest.mark.parametrize("isolation", ["batch", "completion"])
def test_an_outcome_is_there_when_its_completion_is_done_and_not_one_later(pool: Pool, isolation: Isolation) -> None:
    slow = GraderSource("import time\nasync def grade(thread):\n    time.sleep(0.6)\n    return 1.0\n", isolation)
    seen: dict[int, float] = {}
    with pool.grading(slow) as grading:
        assert grading.session.loaded is not None
        began = time.monotonic()
        lines = b"\n".join([line("")] * 3)
        grading.score(lines, 0, "slow@1", 3, stop=lambda done: seen.setdefault(done, time.monotonic()) < 0)
    assert seen[1] - began < 1.1


@BOTH
def test_values_and_missing_completions_reach_the_outcome(pool: Pool, isolation: Isolation) -> None:
    text = """
from gradebox import Score

async def grade(thread):
    completion = thread.completion() or ""
    if completion == "fail":
        raise ValueError(completion)
    return Score(0.5, reason="why", values={"länge": len(completion)}) if completion else 0.25
"""
    question = json.dumps({"messages": [{"role": "user", "content": "q"}]}).encode()
    lines = [line("four"), question, line("fail"), b"{}", line("")]
    outcomes = score(pool, GraderSource(text, isolation), lines)
    assert kinds(outcomes) == [0.5, 0.25, "exception", "bad_input", 0.25]
    assert [outcome.values for outcome in outcomes] == [{"länge": 4.0}, None, None, None, None]
    assert [outcome.no_completion for outcome in outcomes] == [False, True, False, False, False]
    assert outcomes[0].reason == "why"


@BOTH
def test_a_sandbox_is_not_used_again_after_a_defect_in_the_middle_of_a_call(
    pool: Pool, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = GraderSource(LENGTH, isolation)

    def unpack(_data: bytes) -> None:
        raise ValueError("a defect")

    with pool.grading(source) as grading:
        grading.score(line("a"), 0, "g@1")
        with monkeypatch.context() as broken:
            broken.setattr(session_module, "unpack_records", unpack)
            with pytest.raises(ValueError, match="a defect"):
                grading.score(b"\n".join([line("a")] * 300), 0, "g@1")
        assert grading.release() is None
    assert kinds(score(pool, source, [line("abc"), line("")])) == [3.0, 0.0]
