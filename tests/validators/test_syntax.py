"""Tests of sources that compile, and of the errors of others. Sources that attack `compile` are unsafe in this process:
tests/hostile has them.
"""

import pytest

from validators import syntax
from validators.candidate import Candidate, CheckFailed

GOOD = [b"", b"async def grade(thread):\r\n    return 1.0\r\n", "größe = '…'\n".encode()]
# source, part of the message, line
BAD: list[tuple[bytes, str, int]] = [
    (b"x = 1\ny = (\n", "SyntaxError: '(' was never closed, line 2: y = (", 2),
    # An upload loses a byte order mark before this check. A second one is refused.
    (b"\xef\xbb\xbfasync def grade(thread):\n    return 1.0\n", "U+FEFF", 1),
    (b"def f():\nreturn 1\n", "IndentationError: expected an indented block", 2),
    (b"from __future__ import nonsense\n", "future feature nonsense is not defined", 1),
    (b"x = 1\ny = '\xff'\n", "not UTF-8: byte 0xff on line 2", 2),
    (b"x = 1\n\ny = '\0'\n", "a null byte on line 3", 3),
    (b"(" * 250 + b")" * 250, "too many nested parentheses", 1),
    (b"-" * 20000 + b"1", "nested too deeply, or too long for `memory_mb`", 0),
    (b"x = '\\N{NO SUCH CHARACTER}'\n", "unknown Unicode character name", 1),
]


def test_modules_of_the_author_are_parsed() -> None:
    candidate = Candidate(b"add_modules({'a/b.py': 'x = 1', 'c.py': \"\"\"y = 2\"\"\", name: '', 'd.py': 1 + 1})")
    syntax.check(candidate)
    assert sorted(candidate.modules) == ["a/b.py", "c.py"]


def test_a_module_of_the_author_that_does_not_compile() -> None:
    with pytest.raises(CheckFailed) as raised:
        syntax.check(Candidate(b"add_modules({'a/b.py': 'x = ('})"))
    assert raised.value.message == "a/b.py: SyntaxError: '(' was never closed, line 1: x = ("
    assert raised.value.line == 0


@pytest.mark.parametrize("source", GOOD)
def test_a_source_that_compiles(source: bytes) -> None:
    candidate = Candidate(source)
    assert syntax.check(candidate) == "compiles"
    exec(candidate.code, {})


@pytest.mark.parametrize(("source", "message", "line"), BAD, ids=[message for _, message, _ in BAD])
def test_a_source_that_does_not_compile(source: bytes, message: str, line: int) -> None:
    with pytest.raises(CheckFailed) as raised:
        syntax.check(Candidate(source))
    assert message in raised.value.message
    assert raised.value.line == line


def test_a_coding_cookie_does_not_change_what_the_source_means() -> None:
    candidate = Candidate("# coding: latin-1\nx = 'é'\n".encode())
    syntax.check(candidate)
    namespace: dict[str, object] = {}
    exec(candidate.code, namespace)
    assert namespace["x"] == "é"


def test_a_long_line_is_not_repeated_whole() -> None:
    with pytest.raises(CheckFailed) as raised:
        syntax.check(Candidate(b"x = (" + b"a " * 20_000))
    assert len(raised.value.message) < 600


def test_no_future_of_ours_leaks_into_the_source() -> None:
    candidate = Candidate(b"def f(x: int): pass\n")
    syntax.check(candidate)
    namespace: dict[str, object] = {}
    exec(candidate.code, namespace)
    assert getattr(namespace["f"], "__annotations__") == {"x": int}  # noqa: B009  # its type is object
