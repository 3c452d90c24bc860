import ast
import importlib
from pathlib import Path

import pytest

from validators import program_imports


@pytest.mark.parametrize(
    ("source", "line", "name"),
    [
        ('HEAD = "import sys\\nimport numpy as np\\n"', 1, "numpy"),
        ('RUNNER = """\nimport json, numpy\nprint(1)\n"""', 1, "numpy"),
        ('RUNNER = """\nimport json\n    from numpy.linalg import norm\n"""', 1, "numpy"),
        ('RUNNER = f"""\nimport numpy  # as always\n{x}\n"""', 1, "numpy"),
        ('run(["python3", "-c", "import sys; import numpy as np"])', 1, "numpy"),
        ('exec("import numpy" + code)', 1, "numpy"),
        ('HEAD = (\n    "import os\\n"\n    "import numpy\\n"\n)', 2, "numpy"),
    ],
)
def test_a_package_that_a_program_imports_is_warned_of(tmp_path: Path, source: str, line: int, name: str) -> None:
    (warning,) = program_imports.warnings(ast.parse(source))
    assert warning.startswith(f"line {line}: a text imports `{name}`, which the sandbox does not have")
    assert "create NAME numpy" in warning
    (warning,) = program_imports.warnings(ast.parse(source), [str(tmp_path)])
    assert "environments update" in warning
    (tmp_path / f"{name}.py").touch()
    importlib.invalidate_caches()
    assert program_imports.warnings(ast.parse(source), [str(tmp_path)]) == []


@pytest.mark.parametrize(
    "source",
    [
        'HEAD = "import json\\nfrom collections import *\\n"',
        'def run(code):\n    """Runs code.\n\n    import numpy\n    """',
        'ASK = "Do not import numpy here, and take nothing from numpy"',
        'ASK = "import the words"',
        'ASK = "from the start import nothing"',
        'test = "from solution import add"\nPath("solution.py").write_text(code)',
        'test = "from solution import add"\nopen(f"{folder}/solution.py", "w").write(code)',
        'test = "import solution"\nsys.modules["solution"] = made',
        'test = "from .helper import x"',
        'test = "import"',
        'test = "import ,"',
    ],
)
def test_other_texts_are_not(source: str) -> None:
    assert program_imports.warnings(ast.parse(source)) == []


def test_modules_of_the_author_are_no_programs() -> None:
    source = "add_modules({'a.py': 'import numpy\\nfrom b import c'})\nexec('import b, sympy')"
    (warning,) = program_imports.warnings(ast.parse(source), own=frozenset("ab"))
    assert "`sympy`" in warning


def test_each_package_is_told_once() -> None:
    assert len(program_imports.warnings(ast.parse('A = "import numpy\\nimport numpy.linalg"\nB = "import numpy"'))) == 1
