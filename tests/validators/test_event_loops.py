"""Tests of the warnings of calls that run an event loop."""

import pytest

from validators import structure, syntax
from validators.candidate import Candidate

_PLAIN = "\nasync def grade(thread):\n    try: return {}\n    except RuntimeError: return 0.0\n"
_GRADE = _PLAIN.replace("try: ", "try: await pause(); ")
_ALL = "\ndef score_all(texts): return {}\n" + _GRADE.format("score_all([])")


def _warnings(text: str) -> list[str]:
    candidate = Candidate(text.encode())
    syntax.check(candidate)
    structure.check(candidate)
    return candidate.warnings


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import asyncio" + _GRADE.format("asyncio.run(one())"), "line 3: `asyncio.run` raises RuntimeError if"),
        ("import asyncio as aio" + _GRADE.format("aio.run(one())"), "line 3: `asyncio.run` raises"),
        ("import asyncio" + _GRADE.format("asyncio.Runner().run(one())"), "line 3: `asyncio.Runner` raises"),
        ("import asyncio\nR = asyncio.Runner()" + _GRADE.format("R.run(one())"), "line 4: `asyncio.Runner.run` raises"),
        ("import asyncio\nrun = asyncio.run" + _GRADE.format("run(one())"), "line 4: `asyncio.run` raises"),
        ("import asyncio\nR = asyncio.Runner().run" + _GRADE.format("R(one())"), "line 4: `asyncio.Runner.run` raises"),
        (
            "import asyncio\nL = asyncio.new_event_loop()\nrun = L.run_until_complete" + _GRADE.format("run(one())"),
            "line 5",
        ),
        ("from asyncio import run as go" + _GRADE.format("go(one())"), "line 3: `asyncio.run` raises"),
        ("import asyncio" + _ALL.format("asyncio.run(one())"), "line 2: `asyncio.run` raises"),
        ("import asyncio" + _ALL.format("asyncio.get_event_loop().run_until_complete(one())"), "line 2: `run_until_c"),
        ("class Own:\n  def f(self): self.loop.run_until_complete(one())" + _GRADE.format("Own().f()"), "line 2: "),
        (
            "import asyncio\nclass Own:\n  def f(self): asyncio.run(one())\nOWN: Own = Own()\nALL = {'own': OWN}"
            + _GRADE.format("ALL['own'].f()"),
            "line 3: ",
        ),
        ("import asyncio\nF = lambda: asyncio.run(one())" + _GRADE.format("F()"), "line 2: "),
        (
            "from gradebox.modules import add_modules\n"
            "add_modules({'a.py': 'import asyncio\\ndef f(): asyncio.run(g())'})" + _GRADE.format("1"),
            "a.py, line 2: `asyncio.run` raises",
        ),
    ],
)
def test_a_loop_that_cannot_run_is_warned_of(text: str, told: str) -> None:
    (warning,) = _warnings(text)
    assert warning.startswith(told)


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio\ndef main(): asyncio.run(grade(None))\nif __name__ == '__main__': asyncio.run(grade(None))\n",
        "import asyncio\nDATA = asyncio.run(one())\n",
        "import asyncio, nest_asyncio\nnest_asyncio.apply()\n",
        "import asyncio, threading\n",
        "import asyncio, concurrent.futures\n",
        "import asyncio, subprocess\nsubprocess.run(['python3'])\n",
    ],
)
def test_another_is_not(text: str) -> None:
    call = "DATA" if "def main" in text or "DATA" in text or "subprocess" in text else "asyncio.run(one())"
    assert [each for each in _warnings(text + _GRADE.format(call)) if "event loop" in each] == []


def test_one_of_a_grader_that_never_waits_is_not() -> None:
    assert _warnings("import asyncio" + _PLAIN.format("asyncio.run(one())")) == []


def test_one_in_a_thread_is_not() -> None:
    assert _warnings("import asyncio" + _GRADE.format("await asyncio.to_thread(lambda: asyncio.run(one()))")) == []
