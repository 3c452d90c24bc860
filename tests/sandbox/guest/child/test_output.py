"""Tests of the pipe in this process, and of standard output in a separate one."""

import fcntl
import os
from collections.abc import Iterator

import pytest

from sandbox.guest.child.output import is_full, make_pipe, may_touch_system, take, waiting
from tests.processes import printed


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = make_pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_taking_empties_the_pipe_and_keeps_so_many_bytes(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    assert take(reading, 100) == b""
    os.write(writing, b"abc" * 1000)
    assert waiting(reading) == 3000
    assert take(reading, 4) == b"abca"
    assert waiting(reading) == 0
    assert take(reading, 4) == b""


def test_a_pipe_is_full_before_a_writer_has_to_wait(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.write(writing, bytes((1 << 15) - 1))
    assert not is_full(reading)
    os.write(writing, b"x")
    assert is_full(reading)
    assert len(take(reading, 1 << 20)) == 1 << 15


@pytest.mark.parametrize(("size", "part"), [(8192, 4096), (4096, 1)])
def test_a_small_pipe_is_full_before_a_writer_has_to_wait(pipe: tuple[int, int], size: int, part: int) -> None:
    """The kernel gives small pipes to users with many. In a pipe of one page, no page fits behind a byte."""
    reading, writing = pipe
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, size)
    os.write(writing, bytes(part))
    assert is_full(reading)
    os.set_blocking(writing, False)
    if size == 4096:
        with pytest.raises(BlockingIOError):
            os.write(writing, bytes(4096))


def test_a_pipe_that_was_closed_or_replaced_is_an_empty_one() -> None:
    reading, writing = make_pipe()
    os.close(writing)
    os.close(reading)
    assert (waiting(reading), take(reading, 10), is_full(reading)) == (0, b"", False)


@pytest.mark.parametrize("source", ["import os", "open(0).fileno()", "exec('x')", "import subprocess", "import ctypes"])
def test_sources_that_may_print_in_another_way(source: str) -> None:
    assert may_touch_system(source)


def test_a_source_that_prints_through_sys_stdout_alone() -> None:
    assert not may_touch_system("import json\nasync def grade(thread):\n    print('x')\n    return 1.0\n")


_START = """
import os
from sandbox.guest.child.output import ChildOutput, make_pipe
result = os.dup(1)
reading, writing = make_pipe()
output = ChildOutput()
output.lead_to(reading, writing, 10, {watch})
def tell(value): os.write(result, repr(value).encode() + b"\\n")
"""


def _told(source: str, watch: bool = False) -> list[str]:
    return printed(_START.format(watch=watch) + source).splitlines()


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("pass", b""),
        ("print('a')", b"a\n"),
        ("print('a'); print('b', file=sys.stderr); print('c', file=sys.__stdout__)", b"a\nb\nc\n"),
        ("print('a' * 100)", b"a" * 10),
        ("print('123456789', end=''); print('abc')", b"123456789a"),
        ("sys.stdout.buffer.write(b'\\xff')", b"\xff"),
        ("print('\\udcff')", b"\\udcff\n"),
        ("os.write(1, b'a'); os.write(2, b'b')", b"ab"),
        ("os.write(1, b'a' * 100)", b"a" * 10),
        ("for _ in range(3000): print('x' * 1000)", b"x" * 10),  # more than the pipe holds, without blocking
    ],
)
def test_what_is_kept_of_what_is_printed(source: str, kept: bytes) -> None:
    assert _told(f"{source}\ntell(output.take())\ntell(output.take())") == [repr(kept), "b''"]


def test_it_is_known_without_a_look_whether_anything_was_printed() -> None:
    source = "tell(output.may_hold())\nprint('x')\ntell(output.may_hold())\noutput.take()\ntell(output.may_hold())"
    assert _told(source) == ["False", "True", "False"]
    assert _told(source, watch=True) == ["True", "True", "True"]


def test_a_closed_standard_output_leaves_standard_error_open() -> None:
    source = "sys.stdout.close()\nprint('a' * 5, file=sys.stderr)\nprint('b' * 20, file=sys.__stderr__)"
    told = _told(f"{source}\ntell((output.may_hold(), output.take(), sys.stderr.fileno()))")
    assert told == [repr((True, b"aaaaa\nbbbb", 2))]


def test_what_is_left_to_the_supervisor_is_bounded_and_not_taken() -> None:
    source = "output.leave_to_supervisor(4)\nprint('x' * 100)\ntell((output.take(), os.read(reading, 100)))"
    assert _told(source) == [repr((b"", b"xxxx"))]
