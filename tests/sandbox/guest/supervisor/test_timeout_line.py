"""Tests of the place that a child printed when its time was over."""

import pytest

from sandbox.guest.supervisor.timeout_line import split

SOURCE = b"import time\ndef f():\n    time.sleep(9)\n"
STACK = b'Stack (most recent call first):\n  File "/a/b.py", line 1 in x\n  File "grader.py", line 3 in f\n'


def test_the_innermost_line_of_the_grader_is_quoted() -> None:
    printed = b"own\n" + STACK + b'  File "grader.py", line 2 in g\n'
    assert split(printed, SOURCE) == (b"own\n", ". It was in line 3, `time.sleep(9)`")


@pytest.mark.parametrize(
    ("printed", "own"),
    [
        (b"own\n", b"own\n"),
        (b"", b""),
        (b"own\n" + STACK.replace(b"line 3", b"line 4"), b"own\n"),
        (b"own\n" + STACK.replace(b"line 3", b"line 0"), b"own\n"),
        (b"own\n" + STACK.replace(b"line 3", b"line " + b"9" * 5000), b"own\n"),
        (b"own\n" + STACK.replace(b"grader.py", b"graderxpy"), b"own\n"),
        (b"own\nStack (most recent call first):\n", b"own\n"),
    ],
)
def test_without_a_line_of_the_grader_there_is_no_place(printed: bytes, own: bytes) -> None:
    assert split(printed, SOURCE) == (own, "")


def test_a_long_line_is_cut() -> None:
    place = split(STACK, b"\n\n" + b"x" * 10_000)[1]
    assert place == f". It was in line 3, `{'x' * 100}`"
