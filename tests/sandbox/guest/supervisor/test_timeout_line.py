"""Tests of the place that a child printed when its time was over."""

from time import process_time

import pytest

from sandbox.guest.supervisor.timeout_line import has_threads, split

SOURCE = b"import time\ndef f():\n    time.sleep(9)\n"
HEAD = b"Current thread 0x00007f84c8f1b740 (most recent call first):\n"
STACK = HEAD + b'  File "/a/b.py", line 1 in x\n  File "grader.py", line 3 in f\n'
# From Python 3.14 on, the name of a thread follows its number.
OTHER = b'Thread 0x00007f84c7fff640 [Thread-1] (most recent call first):\n  File "grader.py", line 1 in work\n\n'


def test_the_innermost_line_of_the_grader_is_quoted() -> None:
    for own in (b"own\n", b"own", b"Thread 0x" + 30_000 * b"a" + b"\n"):
        for printed in (own + STACK + b'  File "grader.py", line 2 in g\n', own + OTHER + STACK):
            began = process_time()
            assert split(printed, SOURCE) == (own, ". It was in line 3, `time.sleep(9)`")
            assert has_threads(printed) == (OTHER in printed)
            assert process_time() - began < 0.2


@pytest.mark.parametrize(
    ("printed", "own"),
    [
        (b"own\n", b"own\n"),
        (b"", b""),
        (b"own\n" + STACK.replace(b"line 3", b"line 4"), b"own\n"),
        (b"own\n" + STACK.replace(b"line 3", b"line 0"), b"own\n"),
        (b"own\n" + STACK.replace(b"line 3", b"line " + b"9" * 5000), b"own\n"),
        (b"own\n" + STACK.replace(b"grader.py", b"graderxpy"), b"own\n"),
        (b"own\n" + HEAD, b"own\n"),
    ],
)
def test_without_a_line_of_the_grader_there_is_no_place(printed: bytes, own: bytes) -> None:
    assert split(printed, SOURCE) == (own, "")


def test_a_long_line_is_cut() -> None:
    place = split(STACK, b"\n\n" + b"x" * 10_000)[1]
    assert place == f". It was in line 3, `{'x' * 100}`"
