"""Tests that lines go in and records come out whole and in order, in any number and size."""

import pytest

from gradebox.outcome import details_of
from gradebox.score import DETAILS_BYTES
from sandbox.guest.protocol.chunk import SHARED_BYTES
from sandbox.guest.protocol.fields import MAX_DETAILS
from sandbox.guest.template.fork_per_line import PIECE
from tests.sandbox.contract.conftest import Grader, Loads
from tests.sandbox.scoring import BOTH, LENGTH

VARIANTS = ("bubblewrap", "docker, attached")  # a socket, over which memory is shared, and a stream
pytestmark = pytest.mark.sandbox
_TALKS = """
from gradebox import Score
async def grade(thread):
    print("p" * 4000)
    return Score(len(thread.completion()), reason="r" * 4000)
"""


@BOTH
def test_many_lines(isolation: str, loads: Loads) -> None:
    lengths = [number % 97 for number in range(300 if isolation == "completion" else 5000)]
    grader = loads(LENGTH, isolation=isolation)
    outcomes = grader.score(*("x" * length for length in lengths))
    assert [(outcome.index, outcome.score) for outcome in outcomes] == [*enumerate(lengths)]
    assert [outcome.score for outcome in grader.score("x" * 99)] == [99.0]  # sees nothing of the chunk before


@BOTH
def test_more_than_the_shared_memory_holds(isolation: str, loads: Loads) -> None:
    grader = loads(LENGTH, isolation=isolation)
    lengths = [SHARED_BYTES // 3] * 4 + [7]
    assert [outcome.score for outcome in grader.score(*("x" * length for length in lengths))] == lengths
    assert grader.score("abc")[0].score == 3.0


@BOTH
def test_outcomes_that_say_much(isolation: str, loads: Loads) -> None:
    outcomes = loads(_TALKS, isolation=isolation).score(*("x" * number for number in range(200)))
    assert [outcome.score for outcome in outcomes] == list(range(200))
    assert {outcome.reason for outcome in outcomes} == {"r" * 4000}
    assert {len(outcome.stdout or "") for outcome in outcomes} == {4001}


def test_a_warning_of_a_coroutine_that_nobody_awaits_is_of_its_completion(loads: Loads) -> None:
    """It was in `stdout` of the next one."""
    source = """
async def later():
    return 1.0

async def grade(thread):
    return later() if thread.completion() == "forgets" else 1.0
"""
    forgets, other, *_ = loads(source, isolation="batch").score("forgets", "other", "another")
    assert forgets.error is not None and (forgets.error.kind, other.score, other.stdout) == ("bad_return", 1.0, None)
    assert "coroutine 'later' was never awaited" in (forgets.stdout or "")


def test_bytes_of_every_kind(loads: Loads) -> None:
    text = "\x00\x1a\n\r\x11\x13\x03\x04 é ☃ 😀 \x7f"
    source = f"async def grade(thread):\n    return thread.completion() == {text!a}\n"
    assert loads(source, isolation="batch").score(text, "x")[0].score == 1.0


@pytest.mark.parametrize("size", [PIECE - 20, PIECE, PIECE + 1, 700_000])
def test_a_source_of_many_pieces_arrives_whole(size: int, loads: Loads) -> None:
    source = f"async def grade(thread):\n    return len(TEXT)\nTEXT = {'é' * (size // 2)!r}\n"
    grader = loads(source, isolation="completion")
    assert [outcome.score for outcome in grader.score("a", "b")] == [size // 2] * 2


@BOTH
@pytest.mark.parametrize("most", [DETAILS_BYTES, MAX_DETAILS])
def test_details_as_long_as_they_may_be(most: int, isolation: str, loads: Loads) -> None:
    source = """
from gradebox import Score
async def grade(thread):
    print("p" * 4000)
    return Score(1.0, reason="r" * 4000, details={"a": "x" * thread.metadata["size"]})
"""
    longest = most - len('{"a":""}')
    sizes = [longest, 1, longest + 1, longest]
    grader = loads(source, isolation=isolation, details_bytes=most)
    outcomes = grader.score_threads([{"completion": "x", "metadata": {"size": size}} for size in sizes])
    over = outcomes.pop(2)
    assert [len((details_of(outcome) or {})["a"]) for outcome in outcomes] == [longest, 1, longest]
    assert over.error is not None and (over.error.kind, over.score) == ("bad_return", None)
    assert f"may take {most}" in over.error.message


_HOLDS = """
import gc
gc.unfreeze()
from gradebox._guest.template.fork_per_line import ForkPerLine
held = [bytes(found._message) for found in gc.get_objects() if isinstance(found, ForkPerLine)]
answer = [len(held), any(b"sec" + b"ret" in part for part in held), any(b"answer" in part for part in held)]
"""


@pytest.mark.parametrize("size", [10, 30_000, 3_000_000])
def test_nothing_of_a_line_is_left_where_the_next_one_comes(size: int, grader: Grader) -> None:
    grader.score("#" + "secret" * (size // 6))
    assert grader.ask(_HOLDS) == [1, False, True]


def test_a_module_body_may_close_what_it_finds_open(loads: Loads) -> None:
    grader = loads(f"import os\nos.close(4)\n{LENGTH}", isolation="batch")
    for _ in range(2):
        assert [outcome.score for outcome in grader.score("abc", "ab")] == [3.0, 2.0]
        grader.session.reset()
        grader.session.settle()


# Finds the memory with the results of its batch, and executes a completion that may forge it.
_FORGES = """
import gc, mmap, struct, threading, time
from gradebox import Score

HEAD = struct.Struct("<IdII")
MARK = 0x9BC5A700

def memories():
    return [one for one in gc.get_objects() if type(one) is mmap.mmap and one.size() > 200_000]

def forge(slot, length, score=666.0, kind=1, fields=b""):
    for memory in memories():
        try:
            HEAD.pack_into(memory, slot * HEAD.size, 1, score, length, MARK | kind)
            memory[40960 : 40960 + len(fields)] = fields
        except (TypeError, ValueError):
            pass  # the lines, which cannot be written

def scribble(until):
    while time.monotonic() < until:
        for slot in range(6):
            forge(slot, 0xFFFFFFFF, float("nan"), 77, b"\\xff" * 500)

async def grade(thread):
    exec(thread.completion() or "")
    return Score(float(thread.metadata["number"]), reason="of " + str(thread.metadata["number"]))
"""


@pytest.mark.parametrize(
    "code",
    [
        "forge(NUMBER, 0xFFFFFFFF)",  # overwritten by its own record
        "forge(NUMBER + 1, 0xFFFFFFFF)",
        "forge(NUMBER - 1, 0xFFFFFFFF)",
        "forge(NUMBER - 1, 7, kind=77)",
        "forge(NUMBER - 1, 5000, float('nan'))",
        "forge(NUMBER - 1, 0, float('inf'))",
        "forge(0, 9, fields=b'\\x01\\xff\\xff\\xff\\xff' * 20)",
        "forge(0, 0, kind=0)",
        "scribble(time.monotonic() + 0.2)",
        "threading.Thread(target=scribble, args=(time.monotonic() + 0.3,), daemon=True).start()",
    ],
)
def test_forged_memory_of_results_is_never_a_score_of_nobody(code: str, loads: Loads) -> None:
    """In batch isolation one process grades all lines, and code that controls it can forge any result. But each line
    has exactly one result: its score, a forged score, or an error. The next batch is not affected.
    """
    grader = loads(_FORGES, isolation="batch", timeout_s=2.0)
    threads: list[dict[str, object]] = [
        {"messages": [{"role": "assistant", "content": text.replace("NUMBER", str(number))}],
         "metadata": {"number": number}, "id": f"thread-{number}"}
        for number, text in enumerate(["", "", code, "", "time.sleep(0.1)", ""])
    ]  # fmt: skip
    for outcome in grader.score_threads(threads):
        if outcome.score is None:
            assert outcome.error is not None and outcome.error.kind in ("crash", "bad_return", "timeout")
        else:
            assert outcome.score in (outcome.index, 666.0)
        if outcome.score == outcome.index and outcome.reason is not None:
            assert outcome.reason.startswith("of ")
    grader.session.reset()
    grader.session.settle()
    outcomes = grader.score_threads([{**thread, "messages": []} for thread in threads])
    assert [(one.score, one.reason, one.id) for one in outcomes] == [
        (number, f"of {number}", f"thread-{number}") for number in range(6)
    ]


def test_the_memory_of_results_can_be_forged_by_those_that_it_is_of(loads: Loads) -> None:
    """Else the attacks above would prove nothing. A record that was read before cannot be forged."""
    grader = loads(_FORGES, isolation="batch")
    threads: list[dict[str, object]] = [
        {"messages": [{"role": "assistant", "content": text}], "metadata": {"number": number}}
        for number, text in enumerate(["", "forge(0, 0)"])
    ]
    for _ in range(10):
        scores = [outcome.score for outcome in grader.score_threads(threads)]
        assert scores in ([666.0, 1.0], [0.0, 1.0])
        if scores[0] == 666.0:
            return
    if not grader.session.sandbox.takes_descriptors:
        return  # no memory can be shared with such a sandbox: all records go through the pipe
    raise AssertionError("the memory was never forged before it was read")


def test_ids_reasons_and_prints_of_every_size(loads: Loads) -> None:
    """Some fit into the shared memory, and some do not."""
    grader = loads(_SAYS, isolation="batch")
    lengths = [(7 * number) % 900 + (3000 if number % 40 == 39 else 0) for number in range(1500)]
    threads: list[dict[str, object]] = [
        {"messages": [], "metadata": {"length": length}, "id": number if number % 3 else f"é{number}"}
        for number, length in enumerate(lengths)
    ]
    for number, (outcome, length) in enumerate(zip(grader.score_threads(threads), lengths, strict=True)):
        assert (outcome.index, outcome.score) == (number, length)
        assert outcome.id == threads[number]["id"]
        assert outcome.reason == ("r" * length if number % 2 else None)
        assert outcome.stdout == ("p" * length + "\n" if length % 5 == 0 else None)


_SAYS = """
from gradebox import Score
calls = 0

async def grade(thread):
    global calls
    length = thread.metadata["length"]
    if length % 5 == 0:
        print("p" * length)
    calls += 1
    return length if calls % 2 else Score(length, reason="r" * length)
"""


def test_where_a_module_body_has_filled_the_memory_reasons_go_another_way(loads: Loads) -> None:
    grader = loads(_FILLS, isolation="batch")
    threads = [{"messages": [], "metadata": {}, "id": number} for number in range(1000)]
    outcomes = grader.score_threads(threads)
    assert [(one.score, one.id, one.reason) for one in outcomes] == [(1.0, number, "why") for number in range(1000)]


_FILLS = """
import os
from gradebox import Score

size = os.statvfs("/dev/shm").f_bavail * os.statvfs("/dev/shm").f_bsize - 100_000
with open("/dev/shm/full", "wb") as file:
    file.write(bytes(size))

async def grade(thread):
    return Score(1.0, reason="why")
"""


_PRINTS_A_LOT = """
import os, signal, subprocess, sys, time

async def grade(thread):
    said = thread.completion()
    if said == "nothing":
        return 0.0
    print("first", flush=True)
    if said == "program":
        subprocess.run([sys.executable, "-c", "for n in range(20000): print('line', n, flush=n % 500 == 0)"])
    elif said == "at once":
        os.write(1, b"line 0 " + b"x" * 100_000)
    else:
        for number in range(40):
            os.write(1, b"line %d %s\\n" % (number, b"x" * 5000))
            time.sleep(0.01)
    if said == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return 1.0
"""


@BOTH
def test_of_output_that_a_pipe_cannot_hold_the_beginning_is_kept(isolation: str, loads: Loads) -> None:
    """The supervisor empties a full pipe before the completion has ended, and before the one before it is reported."""
    said = ["nothing", "at once", "at once", "at once", "program", "nothing", "writes", "dies", "nothing"]
    outcomes = loads(_PRINTS_A_LOT, isolation=isolation).score(*said)
    for outcome, what in zip(outcomes, said, strict=True):
        if what == "nothing":
            assert (outcome.score, outcome.stdout) == (0.0, None)
            continue
        second = "line 0\nline 1\n" if what == "program" else "line 0 xxx"
        assert (outcome.stdout or "")[: 6 + len(second)] == "first\n" + second
        assert len(outcome.stdout or "") == 4096
        assert (outcome.score, outcome.error is not None) == ((None, True) if what == "dies" else (1.0, False))


def test_output_is_of_its_completion_if_that_ends_while_the_supervisor_empties_the_pipe(loads: Loads) -> None:
    """The beginning of the output was lost then, of every tenth completion."""
    source = """
import os
async def grade(thread):
    os.write(1, thread.completion().ljust(70_000).encode())
    return 1.0
"""
    numbers = [str(number) for number in range(200)]
    outcomes = loads(source, isolation="batch").score(*numbers)
    assert [outcome.stdout for outcome in outcomes] == [number.ljust(4096) for number in numbers]
