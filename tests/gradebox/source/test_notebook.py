"""Tests of functions defined in the cells of a notebook, in a real Jupyter kernel."""

import json
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

import gradebox
from tests.gradebox.source.extracted import run


def execute(folder: Path, *cells: str) -> str:
    """Runs the cells in a kernel of this Python. Returns the output of the last cell."""
    spec = folder / "kernels" / "here"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    env = {"PYTHONPATH": str(Path(gradebox.__file__).parents[1]), "IPYTHONDIR": str(folder / "ipython")}
    spec.joinpath("kernel.json").write_text(json.dumps({"argv": argv, "display_name": "here", "env": env}))
    empty: dict[str, object] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    written = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {},
        "cells": [{**empty, "id": f"cell-{n}", "source": cell} for n, cell in enumerate(cells)],
    }
    notebook = nbformat.reads(json.dumps(written), as_version=4)  # type: ignore[no-untyped-call]  # it has no types
    manager = AsyncKernelManager(
        kernel_name="here", kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(folder / "kernels")])
    )
    client = nbclient.NotebookClient(notebook, km=manager, timeout=60, allow_errors=True, shutdown_kernel="immediate")
    client.owns_km = True  # so that it ends the kernel
    client.execute(cwd=str(folder))
    outputs = notebook.cells[-1].outputs
    assert [output.output_type for output in outputs] == ["stream"], outputs
    return str(outputs[0].text)


@pytest.mark.slow
def test_a_grader_spread_over_cells(tmp_path: Path) -> None:
    source = execute(
        tmp_path,
        "import re, pytest\nfrom gradebox.source import extract",
        "LIMIT = 1",
        "def helper(text):\n    return pytest.approx(text)  # the first try",
        "class Base:\n    scale = 10",
        "class Rule(Base):\n    pattern = re.compile('[0-9]')\nWORDS = ['a']\nWORDS.append('b')",
        "%time ANY = re.compile('.')",
        "%%time\ndef helper(text):\n    return sum(word in text for word in WORDS)",
        "class Base:\n    scale = 10",  # run again: the class derived from the first one must come after one
        "%time import re",
        "LIMIT = 3\nthis_fails()",
        "import math\ndef low(text):\n    return math.floor(len(text) * 0)",  # compiled as if `math` was any name
        "import syntax error",
        "async def my_grader(thread):\n    text = thread.completion()\n"
        "    return LIMIT * bool(ANY) + low(text) + helper(text) + Rule.scale * len(Rule.pattern.findall(text))",
        "t = 'not uploaded'\nresult = await my_grader(type('T', (), {'completion': lambda self: 'ab1'})())",
        "print(extract(my_grader))",
    )
    assert "pytest" not in source, "the later cell wins"
    assert "LIMIT = 3" in source
    assert "not uploaded" not in source
    assert run(tmp_path, source, ["ab12", ""]) == [3 + 2 + 20, 3]


@pytest.mark.slow
def test_a_cell_that_ran_again_wins_and_values_are_those_of_now(tmp_path: Path) -> None:
    source = execute(
        tmp_path,
        "from __future__ import annotations\nfrom gradebox.source import extract",
        "async def g(thread: StringThread) -> float:\n    return 1.0",
        "async def g(thread: StringThread) -> float:\n    return SCALE * len(thread.completion()) + N",
        "SCALE = 1\nimport asyncio\nN = await asyncio.sleep(0, 7)",
        "exec('SCALE = 5')",
        "print(extract(g))",
    )
    assert source.startswith("from __future__ import annotations\n")
    assert run(tmp_path, source, ["abc"]) == [22]


@pytest.mark.slow
def test_a_definition_below_a_failure_does_not_count(tmp_path: Path) -> None:
    source = execute(
        tmp_path,
        "import re\ndef helper(text):\n    return 2",
        "this_fails()\ndef helper(text):\n    return 3",  # in the same line
        "from gradebox.source import extract\nasync def g(thread):\n    return helper(thread)",
        "print(extract(g))",
    )
    assert run(tmp_path, source, ["abc"]) == [2]


@pytest.mark.slow
def test_what_a_cell_used_before_another_ran_again_comes_first(tmp_path: Path) -> None:
    source = execute(
        tmp_path,
        "import functools, re\nWORDS = ['a']\nSCALE = 10",
        "def build():\n    return re.compile('|'.join(WORDS))\nPATTERN = build()\n"
        "def scaled(fn):\n    scale = SCALE\n    @functools.wraps(fn)\n    async def wrapped(thread):\n"
        "        return scale * await fn(thread)\n    return wrapped",
        "@scaled\nasync def g(thread):\n    return len(PATTERN.findall(thread.completion())) + len(WORDS)",
        "import functools, re\nWORDS = ['a', 'b']\nSCALE = 100",
        "from gradebox.source import extract\nprint(extract(g))",
    )
    assert run(tmp_path, source, ["abb"]) == [10 * (1 + 2)]


@pytest.mark.slow
def test_what_autoreload_put_in_place_is_found(tmp_path: Path) -> None:
    (tmp_path / "my_rules.py").write_text("class Rule:\n    def score(self): return 1\ndef f(): return 1\n")
    edited = "import math\n\nclass Rule:\n    def score(self):\n        return math.floor(2.5)\ndef f(): return 10\n"
    source = execute(
        tmp_path,
        "%load_ext autoreload\n%autoreload 2",
        "import os, my_rules\nfrom gradebox.source import extract",
        f"with open('my_rules.py', 'w') as file: file.write({edited!r})\nos.utime('my_rules.py', (2e9, 2e9))",
        "async def g(thread): return my_rules.Rule().score() + my_rules.f()",
        "print(extract(g))",
    )
    assert run(tmp_path, source, ["abc"]) == [12]


@pytest.mark.slow
def test_a_grader_that_autoreload_added_to_its_module_is_told_to_reload(tmp_path: Path) -> None:
    (tmp_path / "my_rules.py").write_text("def f(): return 1\n")
    edited = "def f(): return 1\nasync def g(thread): return 2\n"
    message = execute(
        tmp_path,
        "%load_ext autoreload\n%autoreload 2",
        "import importlib, os, my_rules\nfrom gradebox.source import extract",
        f"with open('my_rules.py', 'w') as file: file.write({edited!r})\nos.utime('my_rules.py', (2e9, 2e9))",
        "try:\n    extract(my_rules.g)\nexcept ValueError as error:\n    print(error)\n"
        "importlib.reload(my_rules)\nprint(extract(my_rules.g))",
    )
    assert "run importlib.reload of my_rules, if autoreload added the function to it" in message
    assert "async def grade(thread): return 2" in message


@pytest.mark.slow
def test_what_exec_and_commands_of_a_notebook_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("def weight(text): return 1\n")
    message = execute(
        tmp_path,
        "from gradebox.source import extract\nexec('async def g(thread): return 1')",
        "files = !ls\n%run -i script.py",
        "async def h(thread): return len(files)",
        "async def k(thread): return weight(thread)",
        "for fn in (g, h, k):\n    try: extract(fn)\n    except ValueError as error: print(error)",
    )
    assert "g was defined in <string>, and Python keeps no source of that" in message
    assert "files uses a magic, or a command such as `!ls`, and the sandbox has no notebook: copy what it" in message
    assert "k uses weight, which no statement of its module binds, but `exec`, `%run` or a function" in message
