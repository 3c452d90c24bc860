import ast

import pytest

from sandbox.guest.template.choose_isolation import runs_code


@pytest.mark.parametrize(
    "source",
    [
        "exec(thread.completion())",
        "run = eval",
        "compile('1', '', 'eval')",
        "__import__('os')",
        "__builtins__['exec']",
        "import subprocess",
        "import json, subprocess as s",
        "import importlib.util",
        "from importlib import import_module",
        "from multiprocessing.pool import Pool",
        "import os\nos.system('true')",
        "import os\nos.execv('a', [])",
        "import os\nos.fork()",
        "import os\nos.posix_spawn('a', [], {})",
        "from os import popen",
        "import asyncio\nasyncio.create_subprocess_exec('a')",
        "from asyncio import create_subprocess_shell",
        "async def grade(t):\n    def f():\n        import pickle",
        "x = [lambda: {1: f'{eval(a)}' for a in b}]",
        "match 1:\n    case 1 if eval('1'):\n        pass",
        "@eval('a')\nclass A: pass",
        "def f(a=exec): pass",
        "import numpy\nnumpy.load(io.BytesIO(completion))",
        "import numpy as np\nread = np.lib.format.read_array",
        "import numpy as np\nfrom io import *\nmemory(a, allow_pickle=True)",
        "from numpy import *\nload(file)",
        "from numpy.lib.stride_tricks import as_strided",
        "import numpy.f2py",
        "from scipy import stats\nclass Mine(stats.rv_continuous): pass",
        "def f():\n    from numpy import testing as t",
        "import os, sys\nsys.path.insert(0, os.environ['ENVIRONMENT_DATA'])\nimport checker",
        "from sys import path\npath.append('/tmp')",
        "import sqlite3\nsqlite3.connect(':memory:').execute(thread.completion())",
        "import os as o\no.system('true')",
        "from os import *\nsystem('true')",
        "import asyncio\nasyncio.get_running_loop().subprocess_exec(make, 'a')",
        "import rlcompleter",
        "import logging.config as c\nc.dictConfig(json.loads(thread.completion()))",
        "from typing import get_type_hints",
    ],
)
def test_a_source_that_can_run_what_a_completion_says(source: str) -> None:
    assert runs_code(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "",
        "import re\nre.compile('a')",
        "import os\nos.path.join('a', 'b')",
        "import sys\nsys.setrecursionlimit(5000)",
        "import json, math, random, collections, os.path",
        "from os import environ",
        "parser.execute('a'); model.eval()",
        "engine.system('a')",
        "x = 'exec(eval)'  # subprocess",
        "from .subprocess_like import a",
        "import subprocesses",
        "import json\njson.load(file)",
        "import numpy as np\nnp.array([1]).mean(); np.linalg.norm(a); '{}'.format(1)",
        "from numpy import array, dot",
        "from scipy import optimize, stats\nstats.pearsonr(a, b)",
    ],
)
def test_a_source_that_cannot(source: str) -> None:
    assert not runs_code(ast.parse(source))


def test_a_deep_tree_is_walked_without_recursion() -> None:
    tree: ast.expr = ast.Name("eval", ast.Load())
    for _ in range(50_000):
        tree = ast.UnaryOp(ast.Not(), tree)
    module = ast.Module([ast.Expr(tree)], [])
    assert runs_code(module)
    while isinstance(tree, ast.UnaryOp):  # by hand, because deep trees are freed by recursion
        inner, tree.operand = tree.operand, ast.Constant(0)
        tree = inner
