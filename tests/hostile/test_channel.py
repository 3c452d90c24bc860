"""Completions that take over their process and speak to whoever listens. None reaches another completion's score."""

import json
import math

import pytest

from gradebox.schemas import Isolation
from sandbox.grader_source import GraderSource
from sandbox.pool import Pool

pytestmark = pytest.mark.sandbox

# What an attack has at hand: the form of a record, and every descriptor of the process.
_GRADER = """
import ctypes, os, signal, socket, struct, time

NAN = float("nan")

def record(kind, score, body=b"", length=None):
    return struct.pack("<IdII", 1, score, len(body) if length is None else length, 0x9BC5A700 | kind) + body

def field(tag, data):
    return struct.pack("<BI", tag, len(data)) + data

def everywhere(data):
    for descriptor in range(3, 128):
        try:
            os.write(descriptor, data)
        except OSError:
            pass

def leave():
    os._exit(0)

async def grade(thread):
    if thread.completion() != "good":
        exec(thread.completion())
    return 1.0
"""
_ENDLESS = "\nwhile True: pass"
_LOST = {"crash"}
# what the completion runs, and what may come of it; the 666.0 that it wishes for is its own where "scored" is allowed
_ATTACKS: dict[str, tuple[str, set[str]]] = {
    "its own score and the next one's": ("everywhere(record(1, 666.0) * 2); leave()", _LOST),
    "a score for every completion": ("everywhere(record(1, 666.0) * 100); leave()", _LOST),
    "its own score alone": ("everywhere(record(1, 666.0)); leave()", {"scored"}),
    "its own score, and another by returning": ("everywhere(record(1, 666.0))", _LOST),
    "not a number": ("everywhere(record(1, NAN)); leave()", {"bad_return"}),
    "infinity": ("everywhere(record(1, -1e999)); leave()", {"bad_return"}),
    "no kind": ("everywhere(record(0, 666.0)); leave()", _LOST),
    "a kind that there is not": ("everywhere(record(77, 666.0)); leave()", _LOST),
    "no mark": ("everywhere(b'\\0' * 20); leave()", _LOST),
    "an error of ours": ("everywhere(record(8, 0.0)); leave()", _LOST),
    "a huge length": ("everywhere(record(1, 666.0, b'', 0xFFFFFFFF)); leave()", _LOST),
    "more than there is": ("everywhere(record(1, 666.0, b'', 500)); leave()", _LOST),
    "half a record": ("everywhere(record(1, 666.0)[:10]); leave()", _LOST),
    "half a record, and waits": ("everywhere(record(1, 666.0)[:10])" + _ENDLESS, {"timeout"}),
    "garbage for fields": ("everywhere(record(1, 666.0, b'\\xff' * 40)); leave()", _LOST),
    "a field twice": ("everywhere(record(1, 666.0, field(3, b'a') * 2)); leave()", _LOST),
    "a reason that is too long": ("everywhere(record(1, 666.0, field(3, b'a' * 17000))); leave()", _LOST),
    "an id that is no number": ("everywhere(record(1, 666.0, field(2, b'nan'))); leave()", _LOST),
    "an id of 67 bits": ("everywhere(record(1, 666.0, field(2, b'9' * 20))); leave()", _LOST),
    "text that is not UTF-8": ("everywhere(record(1, 666.0, field(3, b'\\xff\\xfe'))); leave()", {"scored"}),
    "records without an end": ("while True: everywhere(record(1, 666.0) * 3000)", _LOST),
    "zeros without an end": ("while True: everywhere(b'\\0' * 65536)", _LOST),
    "reads what others are sent": (
        "for d in range(3, 128):\n try: os.set_blocking(d, False); os.read(d, 65536)\n except OSError: pass",
        {"scored", "crash"},
    ),
    "the words of a child": ("everywhere(b'd' * 100); everywhere(b'f' * 100)", _LOST),
    "the words of the template": ("everywhere(b'x\\0\\0\\0\\0'); everywhere(b's\\0\\0\\0\\0')", _LOST),
    "frames of the supervisor": ("everywhere(struct.pack('!BI', 20, 20) + record(1, 666.0))" + _ENDLESS, _LOST),
    "kills the template": ("os.kill(os.getppid(), signal.SIGKILL); time.sleep(0.2)", {"scored", "crash"}),
    "stops the template": ("os.kill(os.getppid(), signal.SIGSTOP); time.sleep(0.2)", {"scored", "crash", "timeout"}),
    "kills everybody": ("os.kill(-1, signal.SIGKILL); time.sleep(0.2)", {"scored", "crash"}),
    "kills pid 1": ("os.kill(1, signal.SIGKILL); os.kill(1, signal.SIGINT); time.sleep(0.2)", {"scored"}),
    "stops itself": ("os.kill(os.getpid(), signal.SIGSTOP)", {"timeout"}),
    "closes everything": ("os.closerange(0, 1024)", {"crash", "timeout", "exception"}),
    "closes everything and stays": ("os.closerange(0, 1024)" + _ENDLESS, {"timeout"}),
    "puts a pipe in the place of each": (
        "r, w = os.pipe()\nfor d in range(3, 128):\n if d not in (r, w):\n  try: os.dup2(w, d)\n  except OSError: pass",
        {"crash", "timeout"},
    ),
    "a child that outlives it": (
        "if os.fork() == 0:\n os.setsid()\n time.sleep(0.3)\n everywhere(record(1, 666.0) * 3)\n leave()",
        {"scored"},
    ),
}


@pytest.mark.parametrize("attack", _ATTACKS)
def test_no_completion_speaks_for_another(attack: str, attacked: Pool) -> None:
    code, allowed = _ATTACKS[attack]
    with attacked.grading(_source("completion")) as grading:
        outcomes = grading.score(_lines("good", code, "good", "good"), 0, "forger@1")
    assert [outcome.index for outcome in outcomes] == [0, 1, 2, 3]
    assert [outcome.score for outcome in outcomes if outcome.index != 1] == [1.0, 1.0, 1.0]
    _, own, _, _ = outcomes
    assert (own.error.kind if own.error else "scored") in allowed, own
    assert (own.score is None) == (own.error is not None)


@pytest.mark.parametrize("attack", _ATTACKS)
def test_in_one_process_each_line_still_comes_to_one_well_formed_outcome(attack: str, attacked: Pool) -> None:
    with attacked.grading(_source("batch")) as grading:
        outcomes = grading.score(_lines("good", _ATTACKS[attack][0], "good", "good"), 7, "forger@1")
    # Which scores they are is the grader's own affair: batch isolation promises nothing between completions.
    assert [outcome.index for outcome in outcomes] == [7, 8, 9, 10]
    for outcome in outcomes:
        assert (outcome.score is None) == (outcome.error is not None)
        assert outcome.score is None or math.isfinite(outcome.score)
        assert outcome.error is None or outcome.error.kind != "infrastructure"


_WORDS = [
    "os.write(3, b'cgarbage')",
    "os.write(3, b'l\\x01')",
    "os.write(3, b'l\\x02')",
    "os.write(3, b'n')",
    "os.write(3, b'x\\0\\0\\0\\0')",
    "os.write(3, b'c' * 70000)",
    "os.write(3, b'c\\x03\\x00' + b'\\0' * 20); os.write(3, b'l\\x02')",  # failed, and loaded
    "os.write(3, b'c\\x03\\x01' + b'\\0' * 20); os.write(3, b'n')",  # passed, and not loaded
    "os.write(3, b'c\\x03\\x01' + b'\\0' * 20); os._exit(0)",
    "os.close(3)",
    "os.dup2(os.open('/dev/null', os.O_RDWR), 3)",
]


@pytest.mark.parametrize("words", _WORDS)
def test_a_module_body_that_speaks_in_the_templates_place_fails_its_check(words: str, attacked: Pool) -> None:
    source = f"import os\n{words}\nasync def grade(thread):\n    return 666.0\n"
    report = attacked.prove(GraderSource(source, timeout_s=1.0))
    assert not report.valid
    assert report.failed is not None
    assert report.failed.name in ("execution", "test_run")


def _source(isolation: Isolation) -> GraderSource:
    return GraderSource(_GRADER, isolation, timeout_s=0.5)


def _lines(*completions: str) -> bytes:
    return b"\n".join(json.dumps({"completion": completion}).encode() for completion in completions)
