import asyncio
import sys
from collections.abc import Coroutine, Iterator
from typing import Any, cast

import pytest

from gradebox.thread import StringThread
from validators import execution, structure, syntax
from validators.candidate import MODULE, Candidate, CheckFailed

GRADE = "async def grade(thread): return 1.0"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)


def _checked(text: str) -> Candidate:
    candidate = Candidate(text.encode())
    syntax.check(candidate)
    structure.check(candidate)
    assert execution.check(candidate) == "the module body runs"
    return candidate


def _graded(candidate: Candidate) -> object:
    thread = StringThread([("user", "q"), ("assistant", "a")])
    return asyncio.run(cast("Coroutine[Any, Any, object]", candidate.grade(thread)))


@pytest.mark.parametrize(
    "text",
    [
        GRADE,
        f"import functools\n{GRADE}\ngrade = functools.partial(grade)",
        f"import functools\n@functools.cache\ndef rate(): return 1.0\n{GRADE.replace('1.0', 'rate()')}",
        f"class A:\n    async def grade(self, thread): return 1.0\n{GRADE}\ngrade = A().grade",
        "async def grade(thread: StringThread) -> float: return float(isinstance(thread, StringThread))",
        "async def grade(thread): return float(__name__ == 'grader')",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    b: 'int'\nasync def grade(t): return A(1.0).b",
        "import sys\nasync def grade(t): return float(sys.modules['grader'].grade is grade)",
    ],
)
def test_a_body_that_leaves_a_coroutine_function(text: str) -> None:
    assert _graded(_checked(text)) == 1.0


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        (f"{GRADE}\n1 / 0", "the module body raised ZeroDivisionError: division by zero", 2),
        (f"import numpy_not_there\n{GRADE}", "gradebox environments create", 1),
        (f"{GRADE}\nraise SystemExit(3)", "the module body raised SystemExit: 3", 2),
        (f"{GRADE}\nclass E(BaseException): pass\nraise E('x')", "the module body raised E: x", 3),
        (f"\nif False:\n    {GRADE}", "`grade` is not defined", 3),
        (f"{GRADE}\ngrade = 1", "no coroutine function but of type `int`", 1),
        (f"{GRADE}\ngrade = lambda thread: 1.0", "no coroutine function but a plain function", 1),
        ("async def grade(thread): yield 1.0", "an async generator (it has a `yield`)", 1),
    ],
)
def test_a_body_that_does_not(text: str, message: str, line: int) -> None:
    with pytest.raises(CheckFailed) as raised:
        _checked(text)
    assert message in raised.value.message
    assert raised.value.line == line


def test_the_trace_shows_the_source_and_nothing_of_ours() -> None:
    with pytest.raises(CheckFailed) as raised:
        _checked(f"def f():\n    return {{}}['key']\n{GRADE}\nf()\n")
    assert raised.value.trace == (
        "Traceback (most recent call last):\n"
        '  File "grader.py", line 4, in <module>\n    f()\n'
        "  File \"grader.py\", line 2, in f\n    return {}['key']\n"
        "KeyError: 'key'"
    )
