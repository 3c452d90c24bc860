import ast
import importlib
from pathlib import Path

import pytest

from validators import imports


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("import sympy", 1, "sympy"),
        ("import sympy.core as s", 1, "sympy"),
        ("from numpy.linalg import norm", 1, "numpy"),
        ("try:\n    import sympy\nexcept ImportError:\n    sympy = None", 2, "sympy"),
        ("try:\n    pass\nexcept ImportError:\n    import sympy", 4, "sympy"),
        ("async def grade(thread):\n    try:\n        import sympy\n    except Exception:\n        pass", 3, "sympy"),
        ("match 1:\n    case 1:\n        import sympy", 3, "sympy"),
        ("if x:\n    pass\nelse:\n    import sympy", 4, "sympy"),
        ("import importlib.util\nclass A:\n    has = importlib.util.find_spec('sympy') is not None", 3, "sympy"),
        ("from importlib import import_module as load\ndef sympy():\n    return load('sympy.core')", 3, "sympy"),
        ("async def grade(thread):\n    return __import__('sympy').pi", 2, "sympy"),
    ],
)
def test_a_package_is_warned_of_wherever_its_import_stands(text: str, line: int, name: str) -> None:
    (warning,) = imports.warnings(ast.parse(text))
    assert warning.startswith(f"line {line}: `{name}` cannot be imported in the sandbox")


@pytest.mark.parametrize("text", ["import a.b", "from a.b import c", "from .b import c"])
def test_modules_in_the_source_are_there(text: str) -> None:
    assert not imports.warnings(ast.parse(text), own=frozenset("a"))
    assert imports.warnings(ast.parse(text))


@pytest.mark.parametrize("name", [".", ".helper", "..pkg.helper"])
def test_a_module_of_the_author_is_warned_of(name: str) -> None:
    text = f"try:\n    from {name} import check\nexcept ImportError:\n    check = len"
    (warning,) = imports.warnings(ast.parse(text))
    assert warning.startswith(f"line 2: the sandbox has no module of yours for `from {name} import`")


@pytest.mark.parametrize(
    "text",
    [
        "import urllib.request",
        "from urllib import request",
        "from http.client import HTTPSConnection",
        "def ask():\n    try:\n        import socket\n    except OSError:\n        pass",
        "from openai import OpenAI\nimport openai",
    ],
)
def test_what_needs_a_network_is_warned_of(text: str) -> None:
    (warning,) = imports.warnings(ast.parse(text))
    assert "needs a network, and the sandbox has none" in warning


@pytest.mark.parametrize(
    "text",
    [
        "import json, re, xml.etree.ElementTree",
        "from __future__ import annotations",
        "from gradebox import StringThread",
        "from adaptive_harmony import StringThread",
        "from urllib.parse import urlsplit",
        "import grader",
        "import importlib\nopen('/tmp/answer.py', 'w').close()\nimportlib.import_module('answer')",
        "import importlib.util, sys\nsys.modules['answer'] = sys\n__import__('answer')",
        "from importlib.util import find_spec\nfind_spec('json')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sympy import Expr\n    from .helper import Kind",
        "import typing\nif typing.TYPE_CHECKING:\n    import sympy\nelse:\n    import json",
    ],
)
def test_what_is_there_is_not(text: str) -> None:
    assert imports.warnings(ast.parse(text)) == []


def test_a_package_that_the_grader_itself_hides_is_warned_of(tmp_path: Path) -> None:
    tree = ast.parse("import os\nfrom grader import grade_answer\nimport grader")
    assert imports.warnings(tree, [str(tmp_path)]) == []
    (tmp_path / "grader").mkdir()
    (tmp_path / "grader" / "__init__.py").touch()
    importlib.invalidate_caches()
    (warning,) = imports.warnings(tree, [str(tmp_path)])
    assert warning.startswith("line 2: `grader` is the grader's own module, which hides the environment's package")


def test_each_package_is_told_once() -> None:
    assert len(imports.warnings(ast.parse("import sympy\nimport sympy.core\nfrom sympy import x, y"))) == 1


@pytest.mark.parametrize(("name", "what"), [("psutil", "/proc"), ("polars", "epoll")])
def test_a_package_that_needs_what_is_not_there_is_warned_of(tmp_path: Path, name: str, what: str) -> None:
    text = f"import {name}\nfrom {name} import Process"
    (warning,) = imports.warnings(ast.parse(text))
    assert f"line 1: `{name}` cannot be imported" in warning
    (tmp_path / f"{name}.py").touch()
    importlib.invalidate_caches()
    (warning,) = imports.warnings(ast.parse(f"import os\n{text}"), [str(tmp_path)])
    assert warning.startswith(f"line 2: `{name}` needs {what}, and the sandbox has none")
