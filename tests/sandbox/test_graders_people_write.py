"""Tests of graders as users write them. Each runs between good completions, which must keep their scores."""

from typing import Any, NamedTuple

import pytest

from gradebox.outcome import Outcome
from gradebox.schemas import Isolation
from sandbox.grader_source import GraderSource
from sandbox.grading.source_bytes import from_bytes
from sandbox.pool.pool import Pool
from tests.sandbox.scoring import BOTH, line, score

pytestmark = pytest.mark.sandbox

GOOD = 0.25
_ENTRY = """

async def grade(thread):
    if thread.completion() == "good":
        return 0.25
    return await judge(thread)
"""


class Row(NamedTuple):
    """A source that defines `judge`, a completion, and the expected score or kind of error."""

    name: str
    source: str
    expected: float | str
    completion: str = "hello"
    told: str = ""  # must be in the reason, the message or the output
    timeout_s: float = 8.0


_LOOPS = "import asyncio\nasync def f():\n    await asyncio.sleep(0.001)\n    return 0.5\n---\ntry:\n    "


def body(name: str, lines: str, expected: float | str, **more: Any) -> Row:
    """A row whose `judge` has these lines. Lines before `---` go to the top of the module."""
    top, _, inner = lines.strip("\n").rpartition("---\n")
    indented = "\n".join("    " + line for line in inner.splitlines())
    return Row(name, f"{top}\nasync def judge(thread):\n{indented}\n", expected, **more)


# `run` gives the number that a program prints.
_OWN = '''
from gradebox.modules import add_modules
add_modules({"tools/__init__.py": "", "tools/text.py": r"""
from .low import low

def count(text):
    return len(low(text))

def fail(text):
    raise ValueError(text)
""", "tools/low.py": "def low(text):\\n    return text.lower()\\n"})
__package__ = "tools"
'''
_RUN = """
import subprocess, sys
def run(program, **more):
    command = [sys.executable, '-c', program]
    done = subprocess.run(command, capture_output=True, text=True, input='2 3', timeout=6, **more)
    print(done.stderr)
    return float(done.stdout or 0)
---
"""


def program(name: str, text: str, expected: float) -> Row:
    """A row whose `judge` runs this program and returns the number that it prints."""
    return body(name, f"{_RUN}return run({text!r})", expected)


WORKING = [
    body("modules of the author", _OWN + "from .text import count\n---\nreturn count('ABC')", 3.0),
    body("modules of the author, by name", _OWN + "import tools.text\n---\nreturn tools.text.count('ABC')", 3.0),
    body("modules of the author, late", _OWN + "---\nfrom tools.text import count\nreturn count('ABC')", 3.0),
    body("dataclass",
         "from dataclasses import dataclass, asdict\n@dataclass(frozen=True)\nclass P:\n    x: int\n    y: int = 2\n"
         "---\n"
         "return float(asdict(P(1)) == {'x': 1, 'y': 2}) + len(thread.completion())", 6.0),
    Row("postponed annotations",
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass Tree:\n"
        "    left: Tree | None = None\nasync def judge(thread: Nowhere) -> Nothing:\n"
        "    return float(Tree(Tree()).left == Tree())\n", 1.0),
    body("asyncio.gather", "import asyncio\nasync def one(n):\n    await asyncio.sleep(0)\n    return n\n---\n"
         "return sum(await asyncio.gather(*(one(n) for n in range(5))))", 10.0),
    body("asyncio.wait_for", "import asyncio\n---\ntry:\n    await asyncio.wait_for(asyncio.sleep(60), 0.01)\n"
         "except TimeoutError:\n    return 0.5", 0.5),
    body("a pool of processes that are spawned, kept by the module",
         "import multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor\n_pool = None\n"
         "def double(n):\n    return n * 2\ndef pool():\n    global _pool\n    if _pool is None:\n"
         "        _pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('spawn'))\n    return _pool\n"
         "---\ntry:\n    return pool().submit(double, 2).result(timeout=5)\nexcept Exception:\n    return 0.0", 4.0),
    body("a pool of processes that the module makes",
         "from concurrent.futures import ProcessPoolExecutor\nPOOL = ProcessPoolExecutor(2)\n---\n"
         "try:\n    return POOL.submit(len, 'abcd').result(timeout=2)\nexcept TimeoutError:\n    return 0.0", 4.0),
    body("processes of a fork server, imported inside `grade`", "def put(queue):\n    queue.put(7)\n---\n"
         "import multiprocessing\ncontext = multiprocessing.get_context('forkserver')\nqueue = context.Queue()\n"
         "p = context.Process(target=put, args=(queue,))\np.start()\nvalue = queue.get(timeout=5)\np.join()\n"
         "return value + p.exitcode", 7.0),
    body("a program that is run as HumanEval, APPS and verl run it",
         "import multiprocessing, resource\ndef run(program, result):\n"
         "    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
         "    exec(program, {})\n    result.append('passed')\n---\n"
         "with multiprocessing.Manager() as manager:\n    scores = []\n"
         "    for program in ('assert 1 + 1 == 2', 'assert 1 + 1 == 3', 'while True: pass'):\n"
         "        result = manager.list()\n"
         "        p = multiprocessing.Process(target=run, args=(program, result))\n"
         "        p.start()\n        p.join(timeout=0.3)\n        if p.is_alive():\n            p.kill()\n"
         "        scores.append(bool(result) and result[0] == 'passed')\n"
         "return 100 * scores[0] + 10 * scores[1] + scores[2]", 100.0),
    body("a program that is run as LiveCodeBench runs it",
         "import io, multiprocessing, os, signal, subprocess, sys\nfrom types import ModuleType\n"
         "from unittest.mock import mock_open, patch\n"
         "def guard():\n    import builtins\n    builtins.quit = None\n    os.kill = os.fork = os.getcwd = None\n"
         "    os.unlink = os.chdir = subprocess.Popen = None\n    sys.modules['resource'] = None\n"
         "def run(program, result):\n    guard()\n    signal.alarm(2)\n    made = ModuleType('made')\n"
         "    exec('def main():\\n' + program, made.__dict__)\n    printed = sys.stdout = io.StringIO()\n"
         "    with patch('builtins.open', mock_open(read_data='2 3')), patch('sys.stdin', io.StringIO('2 3')):\n"
         "        made.main()\n    result.append(printed.getvalue() == '5\\n')\n---\n"
         "scores = []\n"
         "for line in ('input()', 'open(0).read()', 'sys.stdin.readline()', '(str(inspect.stack())[:0] + input())'):\n"
         "    result = multiprocessing.Manager().list()\n"
         "    text = f' import inspect, sys\\n print(sum(map(int, {line}.split())))'\n"
         "    p = multiprocessing.Process(target=run, args=(text, result))\n    p.start()\n    p.join(timeout=3)\n"
         "    scores.append(list(result) == [True])\n"
         "return sum(10**n for n, right in enumerate(scores) if right)", 1111.0),
    body("a program that ends by exit",
         "import contextlib, io, sys\n---\nprinted = io.StringIO()\nsys.stdin = io.StringIO('7')\ntry:\n"
         "    with contextlib.redirect_stdout(printed):\n"
         "        exec('print(int(input()) + 1)\\nif True:\\n    exit()\\nprint(0)', {'__name__': '__main__'})\n"
         "except SystemExit as end:\n    return int(printed.getvalue()) + (end.code is not None)", 8.0),
    body("a manager's dict and lock in a pool of spawned processes",
         "import multiprocessing\ndef add(shared, lock, n):\n    with lock:\n        shared['sum'] += n\n---\n"
         "context = multiprocessing.get_context('spawn')\nmanager = context.Manager()\n"
         "shared, lock = manager.dict(sum=0), manager.Lock()\n"
         "with context.Pool(2) as pool:\n    pool.starmap(add, [(shared, lock, n) for n in range(5)])\n"
         "return shared['sum']", 10.0),
    body("limits of a program, set before it starts", "import os, resource\n"
         "def limit():\n    os.setsid()\n    os.nice(10)\n    os.sched_setaffinity(0, {0})\n"
         "    for which, most in (('AS', 1 << 40), ('NOFILE', 4096), ('NPROC', 64), ('FSIZE', 1 << 30), ('CORE', 0)):\n"
         "        resource.setrlimit(getattr(resource, f'RLIMIT_{which}'), (most, most))\n"
         f"{_RUN}return run('print(7)', preexec_fn=limit)", 7.0),
    program("limits that a program sets for itself, and the stack of its thread", "import resource, sys, threading\n"
            "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))\n"
            "resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
            "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
            "threading.stack_size(512 << 20)\nsys.setrecursionlimit(10**6)\n"
            "def depth(n):\n    return n and 1 + depth(n - 1)\n"
            "thread = threading.Thread(target=lambda: print(depth(50000)))\nthread.start()\nthread.join()\n", 50000.0),
    body("a large stack of a thread of the grader",
         "import threading\n---\nthreading.stack_size(512 << 20)\nseen = []\n"
         "t = threading.Thread(target=seen.append, args=(3,))\nt.start()\nt.join()\nreturn seen[0]", 3.0),
    program("a program that starts a manager and a fork server", "import multiprocessing\n"
            "with multiprocessing.Manager() as manager, multiprocessing.get_context('forkserver').Pool(1) as pool:\n"
            "    print(sum(manager.list(pool.map(abs, [-1, -2]))))\n", 3.0),
    program("a program that reads /dev/stdin and writes to /dev/stdout",
            "from os.path import exists\nfrom pathlib import Path\n"
            "n = exists('/dev/stdin') * sum(map(int, open('/dev/stdin').read().split()))\n"
            "Path('/dev/stdout').write_text(str(n))\n", 5.0),
    body("SIGCHLD ignored by the module", "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n---\n"
         "return 1.0 if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN else 0.0", 1.0),
    body("signal.alarm", "import signal\nclass Late(Exception):\n    pass\ndef late(*_):\n    raise Late\n---\n"
         "signal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\n"
         "try:\n    while True:\n        pass\nexcept Late:\n    return 0.5", 0.5),
    body("printing bytes", "import sys\n---\nsys.stdout.buffer.write(b'raw bytes')\nreturn 1", 1.0, told="raw bytes"),
    body("standard output with another encoding",
         "import sys\n---\nsys.stdout.reconfigure(encoding='utf-8', line_buffering=True)\nprint('é')\nreturn 1",
         1.0, told="é"),
    body("printing to stderr", "import sys\n---\nprint('to stderr', file=sys.stderr)\nreturn 1", 1.0, told="to stderr"),
    body("modules of the standard library",
         "import array, ast, bisect, bz2, cmath, csv, ctypes, datetime, decimal, difflib, enum, fractions, functools\n"
         "import hashlib, heapq, html.parser, lzma, statistics, string, unicodedata, zlib\n"
         "import xml.etree.ElementTree as E\n---\n"
         "halves = [float(decimal.Decimal('0.5')), float(fractions.Fraction(1, 2)), statistics.mean([0, 1])]\n"
         "return sum(halves) + len(E.fromstring('<a><b/></a>')) + len(hashlib.sha256(zlib.compress(b'')).digest())",
         34.5),
    body("a kept stream", "import sys\nKEPT = sys.stdout\n---\nprint('kept', file=KEPT)\nreturn 1.0", 1.0, told="kept"),
    body("standard output closed",
         "import multiprocessing, sys\ndef work(result):\n    sys.stdout.close()\n    print('told', file=sys.stderr)\n"
         "    result.append(7)\n---\n"
         "result = multiprocessing.Manager().list()\np = multiprocessing.Process(target=work, args=(result,))\n"
         "p.start()\np.join()\nreturn sum(result)", 7.0, told="told"),
    body("logging", "import logging\n---\nlogging.warning('look %s', 'here')\nreturn 1.0", 1.0, told="look here"),
    body("recursion", "def depth(n):\n    return n and 1 + depth(n - 1)\n---\nreturn depth(800)", 800.0),
    body("pickle of a class of the module",
         "import pickle\nclass P:\n    def __init__(self, x):\n        self.x = x\n---\n"
         "return pickle.loads(pickle.dumps(P(9))).x", 9.0),
    body("copy.deepcopy of the thread", "import copy\n---\nreturn float(copy.deepcopy(thread) == thread)", 1.0),
    body("getsource", "import inspect\n---\nreturn float('await judge(thread)' in inspect.getsource(grade))", 1.0),
    body("traceback.format_exc", "import traceback\n---\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n"
         "    told = traceback.format_exc()\n    return float('    1 / 0\\n' in told and 'ZeroDivisionError' in told)",
         1.0),
    body("context",
         "from contextvars import ContextVar as C\nv = C('v', default=2)\n---\nv.set(v.get() + 1)\nreturn v.get() >= 3",
         1.0),
    body("uuid", "import uuid\n---\nreturn float(uuid.uuid4() != uuid.uuid4() and len(str(uuid.uuid1())) == 36)", 1.0),
    body("time zone", "import time, datetime\n---\nreturn float(time.timezone == 0 and time.tzname[0] == 'UTC' and "
         "datetime.datetime.fromtimestamp(0).hour == 0)", 1.0),
    body("zoneinfo", "from datetime import datetime\nfrom zoneinfo import ZoneInfo, available_timezones\n---\n"
         "summer = datetime(2026, 7, 1, tzinfo=ZoneInfo('America/New_York'))\n"
         "return summer.utcoffset().total_seconds() / 3600 + len(available_timezones()) // 400", -3.0),
    body("tempfile",
         "import tempfile\n---\nwith tempfile.NamedTemporaryFile('w+') as f:\n    f.write('1.5')\n    f.seek(0)\n"
         "    return float(f.read())", 1.5),
    body("RecursionError", "def f():\n    return f()\n---\ntry:\n    f()\nexcept RecursionError:\n    return 0.5", 0.5),
    body("the module is in sys.modules", "import sys\nX = 3\n---\nreturn sys.modules[__name__].X", 3.0),
    body("two returns", "import os\n---\np = os.fork()\nif p == 0:\n    return 0.0\nos.waitpid(p, 0)\nreturn 1.0", 1.0),
    body("CRLF", "x = '''a\nb'''\n---\nreturn len(x)", 3.0)._replace(name="CRLF"),
    Row("BOM", "\ufeffasync def judge(thread):\n    return 0.5\n", 0.5),
    body("asyncio.run", _LOOPS + "return asyncio.run(f())\nexcept RuntimeError:\n    return 0.0", 0.5),
    body("asyncio.run of an object", "class Judge:\n    def rate(self):\n        return asyncio.run(f())\n"
         + _LOOPS.replace("---", "JUDGE = Judge()\n---")
         + "return JUDGE.rate()\nexcept RuntimeError:\n    return 0.0", 0.5),
    body("a new loop",
         _LOOPS + "return asyncio.new_event_loop().run_until_complete(f())\nexcept RuntimeError:\n    return 0.0",
         0.5),
    body("a new loop where there is none, after asyncio.run",
         _LOOPS + "asyncio.run(f())\n    try:\n        loop = asyncio.get_event_loop()\n    except RuntimeError:\n"
         "        loop = asyncio.new_event_loop()\n    return loop.run_until_complete(f())\n"
         "except RuntimeError:\n    return 0.0", 0.5),
    body("asyncio.Runner",
         _LOOPS + "with asyncio.Runner() as run:\n        return run.run(f())\nexcept RuntimeError:\n    return 0.0",
         0.5),
    body("asyncio.Runner of the module", _LOOPS.replace("---", "RUNNER = asyncio.Runner()\n---")
         + "return RUNNER.run(f())\nexcept RuntimeError:\n    return 0.0", 0.5),
    body("asyncio.run by another name",
         "import asyncio as aio\nasync def f():\n    await aio.sleep(0.001)\n    return 0.5\n---\n"
         "try:\n    return aio.run(f())\nexcept RuntimeError:\n    return 0.0", 0.5),
    body("run_until_complete by another name",
         _LOOPS.replace("---", "run = asyncio.new_event_loop().run_until_complete\n---")
         + "return run(f())\nexcept RuntimeError:\n    return 0.0", 0.5),
    # in Python 3.12 and later, `logging` asks for the task
    body("asyncio.run, and a line of the log",
         _LOOPS + "import logging\n    logging.warning('hm')\n    return asyncio.run(f())\n"
         "except RuntimeError:\n    return 0.0", 0.5),
    body("asyncio.run in a branch, and await",
         _LOOPS + "return await asyncio.wait_for(f(), 5)\nexcept RuntimeError:\n"
         "    return asyncio.run(f()) if thread.metadata else 0.0", 0.5),
    Row("64 KiB", "# 64 KiB\nasync def judge(thread):\n    return 0.5\n", 0.5),
]  # fmt: skip

FAILING = [
    body(
        "exception in a module of the author",
        _OWN + "from tools.text import fail\n---\nfail('no such word')",
        "exception",
        told="ValueError: no such word (tools/text.py:8) (line 1",
    ),
    body("exception", "raise LookupError('no such key')", "exception", told="LookupError: no such key"),
    body("sys.exit", "import sys\n---\nsys.exit(0)", "exception", told="SystemExit"),
    body("KeyboardInterrupt", "raise KeyboardInterrupt", "exception", told="KeyboardInterrupt"),
    body("RecursionError", "def f():\n    return f()\n---\nreturn f()", "exception", told="RecursionError"),
    body("abort", "import os\n---\nos.abort()", "crash"),
    body("memory", "bytearray(4 << 30)\nreturn 1.0", "memory"),
    body("regex without end", "import re\n---\nreturn float(bool(re.match(r'(a+)+$', thread.completion())))", "timeout",
         completion="a" * 40 + "b", timeout_s=1.0),
    body("asyncio.sleep without end", "import asyncio\n---\nawait asyncio.sleep(600)", "timeout", timeout_s=1.0),
    body("asyncio.run inside a loop", "import asyncio\nasync def f():\n    return 1.0\n---\nawait asyncio.sleep(0)\n"
         "return asyncio.run(f())", "exception", told="RuntimeError"),
]  # fmt: skip


def uploaded(row: Row) -> str:
    text = row.source + _ENTRY
    if row.name == "CRLF":
        text = text.replace("\n", "\r\n")
    if row.name == "64 KiB":
        text += "#" * ((64 << 10) - len(text))
    return from_bytes(text.encode())


def grade(pool: Pool, row: Row, isolation: Isolation) -> list[Outcome]:
    """Grades good, the row, good, the row again, good."""
    good, own = line("good"), line(row.completion, metadata={})
    return score(pool, GraderSource(uploaded(row), isolation, timeout_s=row.timeout_s), [good, own, good, own, good])


def told(outcome: Outcome) -> str:
    return f"{outcome.reason} {outcome.error and outcome.error.message} {outcome.stdout}"


@BOTH
@pytest.mark.parametrize("row", WORKING + FAILING, ids=lambda row: row.name)
def test_it_comes_to_what_was_written_and_others_keep_their_scores(row: Row, isolation: Isolation, pool: Pool) -> None:
    outcomes = grade(pool, row, isolation)
    assert [outcome.index for outcome in outcomes] == [0, 1, 2, 3, 4]
    assert [outcome.score for outcome in outcomes[::2]] == [GOOD] * 3
    for outcome in outcomes[1::2]:
        came_to = outcome.error.kind if outcome.error else outcome.score
        assert came_to == row.expected, outcome
        assert row.told in told(outcome)


REPEATED = [
    body("random", "import random\n---\nreturn random.random()", 0.0),
    body("random, in the module body", "import random\nX = random.random()\n---\nreturn X", 0.8444218515250481),
    body("random, imported late", "import random\nreturn random.random()", 0.0),
    body("shuffle", "import random\n---\nx = list(range(50))\nrandom.shuffle(x)\nreturn x[0] * 50 + x[1]", 0.0),
    body("order of a set", "return float(int(''.join(str(ord(c)) for c in list({'a', 'b', 'c', 'd', 'e'}))))", 0.0),
    body("hash of a string", "return hash(thread.completion()) % 1000003", 0.0),
    body(
        "random numbers of a process",
        "import multiprocessing, random\ndef work(queue):\n    queue.put(random.random())\n---\n"
        "queue = multiprocessing.SimpleQueue()\nmultiprocessing.Process(target=work, args=(queue,)).start()\n"
        "return queue.get()",
        0.0,
    ),
    program("hash and random numbers of a program", "import random\nprint(hash('a') % 1000 + random.random())", 0.0),
]


@pytest.mark.parametrize("row", REPEATED, ids=lambda row: row.name)
def test_the_same_input_gives_the_same_score_in_every_sandbox(row: Row, pool: Pool) -> None:
    outcomes = grade(pool, row, "batch") + grade(pool, row, "completion")
    scores = [outcomes[number].score for number in (1, 3, 6, 8)]
    assert scores[0] is not None
    assert len(set(scores)) == 1
