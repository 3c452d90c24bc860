import linecache
import os
import subprocess
import sys
from pathlib import Path
from time import process_time
from unittest import mock

import pytest

import gradebox
from gradebox.errors import SourceError
from gradebox.source import extract, imports
from gradebox.source.live import own_contents
from tests.gradebox.source.extracted import load, run, same


def test_a_function_alone_is_renamed_and_nothing_else(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        "from gradebox import StringThread\n"
        "import json\n"
        "UNUSED = 1\n\n"
        "async def exact(thread: StringThread) -> float:\n"
        "    # the reason is here\n"
        "    return float(thread.completion() == '4')\n",
    )
    assert same(tmp_path, module.exact) == (
        "from gradebox import StringThread\n\n\n"
        "async def grade(thread: StringThread) -> float:\n"
        "    # the reason is here\n"
        "    return float(thread.completion() == '4')\n"
    )


def test_what_is_called_grade_already_is_kept_word_for_word(tmp_path: Path) -> None:
    text = 'async  def grade(t , *, k = "ü") : # odd\n    return  len( t.last_content() )\n'
    assert same(tmp_path, load(tmp_path, text).grade) == text


def test_helpers_constants_and_classes_come_along_transitively(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
import re, json, math as m
from collections import Counter, OrderedDict as OD
import os.path
import xml.etree.ElementTree as ET

WORD = re.compile(r"\\w+")
WEIGHTS = {"a": 0.5, "b": 0.25}  # by word
LOW, HIGH = 0, 10
UNUSED = json.dumps({})

class Base:
    scale = m.pi

class Bag(Base):
    def __init__(self, words=OD()): self.words = Counter(words)
    def total(self): return sum(n * WEIGHTS.get(w, 0) for w, n in self.words.items()) * self.scale

def clamp(x: float, low=LOW) -> float:
    return max(low, min(HIGH, x))

def words(text):
    def inner():
        return [w for w in WORD.findall(text)]
    return inner()

async def my_grader(thread):
    return clamp(Bag(words(thread.completion())).total())
""",
    )
    source = same(tmp_path, module.my_grader, "a b a", "", "z")
    assert 'WEIGHTS = {"a": 0.5, "b": 0.25}  # by word' in source
    assert "import re\nimport math as m\n" in source.replace("import re, math as m", "import re\nimport math as m")
    for unused in ("json", "UNUSED", "os.path", "ElementTree"):
        assert unused not in source


def test_decorators_defaults_and_annotations_come_along(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
import functools
from dataclasses import dataclass, field
from typing import NamedTuple

LIMIT = 3

class Pair(NamedTuple):
    low: float
    high: float

def clamped(low, high):
    def decorate(fn):
        @functools.wraps(fn)
        async def wrapper(*args):
            return max(low, min(high, await fn(*args)))
        return wrapper
    return decorate

@dataclass(frozen=True)
class Rule:
    word: str
    parts: list["Part"] = field(default_factory=list)

class Part: pass

def first(pair: Pair = Pair(1.0, 2.0)): return pair.low

@clamped(0.0,
         LIMIT)
async def scored(thread, rule: Rule = Rule("b")):
    return 10 * first() * (rule.word in thread.completion())
""",
    )
    source = same(tmp_path, module.scored)
    assert "@clamped(0.0,\n         LIMIT)\nasync def grade(" in source
    assert "class Part" in source


def test_recursion_works_after_the_rename(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
def again(thread): return shrink(thread)
async def shrink(thread):
    text = thread.last_content()
    if len(text) < 2: return len(text)
    return 1 + await again(type(thread)([("assistant", text[1:])]))
""",
    )
    assert same(tmp_path, module.shrink).endswith("\n\n\nshrink = grade\n")


def test_local_names_are_not_those_of_constants(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        "words = sorted({'b', 'a'})\n"
        "def split(text):\n    words = []\n    words.append(text)\n    return words\n"
        "async def g(t): return len(split('x')) + len(words)\n",
    )
    assert same(tmp_path, module.g).startswith("words = ['a', 'b']\n")


def test_blocks_at_module_level_come_along_whole(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
import sys
try:
    import surely_not_there as fast
except ImportError:
    import json as fast
if sys.version_info > (3, 0):
    def norm(s): return s.strip()
else:
    def norm(s): return s
for n in range(3):
    class Last:
        value = n
async def g(thread):
    return len(fast.dumps(norm(thread.completion()))) + Last.value
""",
    )
    assert "import surely_not_there" in same(tmp_path, module.g, " x ", "")


_BOUND_AGAIN = {
    "several times": """
import re
SEP = "a"
FIRST = re.compile(SEP)
SEP = "b"
SECOND = re.compile(SEP)
TOTAL = 1
TOTAL += 2
def f(): return 1
f1 = f
def f(): return 2
async def g(thread):
    text = thread.completion()
    return 1000 * f1() + 100 * f() + 10 * TOTAL + len(FIRST.findall(text)) + 2 * len(SECOND.findall(text)) + len(SEP)
""",
    "after a function used it": """
class Rule:
    def __init__(self, limit): self.limit = limit
LIMIT = 5
def make(): return Rule(LIMIT)
RULE = make()
LIMIT = 10
async def g(thread): return float(100 * RULE.limit + LIMIT)
""",
    "after a value holds it": """
class Base: limit = 2
class Rule(Base):
    def weight(self): return self.limit
def ten(text): return 10
RULES = {"rule": Rule(), "ten": ten}
class Base: limit = 3
class Rule(Base):
    def weight(self): return 5
def ten(text): return 20
async def g(thread): return RULES["rule"].weight() + RULES["ten"](thread.completion())
""",
    "other names of the grader": "async def g(t): return 2 if len(t.completion()) > 1 else await inner(t)\n"
    "async def inner(t): return (other is g) + g.bonus\nother = g\ng.bonus = 5\n",
    "an import of all names, of which one is used before": "from cmath import sqrt\nX = sqrt(4)\nfrom math import *\n"
    "async def g(thread): return isinstance(X, complex) + sqrt(9)",
    "an import of all names": "def sqrt(x): return -1\nfrom math import *\nasync def g(thread): return sqrt(9)",
    "two imports of all names": "from math import *\nfrom statistics import *\n"
    "async def g(thread): return sqrt(4) + mean([1, 2])",
}


@pytest.mark.parametrize("how", _BOUND_AGAIN)
def test_names_that_are_bound_again_have_the_values_they_had(tmp_path: Path, how: str) -> None:
    same(tmp_path, load(tmp_path, _BOUND_AGAIN[how]).g, "aab", "abb", "")


def test_tables_filled_after_their_definition_come_filled(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
import re
from functools import singledispatch
SQUARES = {}
for i in range(5):
    SQUARES[i] = i * i
PATTERNS = {}
PATTERNS["digit"] = re.compile("[0-9]")
PATTERNS.update(word=re.compile("[a-z]"))
BOTH, MIXED = [], []
for word in ("a", "b"):
    BOTH.append(word)
    MIXED.append(re.compile(word))
def helper(): return helper.bonus
helper.bonus = 0.5
ALIASED = []
other = ALIASED
other.append(re.compile("a"))
class Base:
    known = []
    def __init_subclass__(cls): Base.known.append(cls)
class Child(Base): pass
setattr(Base, "bonus", 0.125)
class Registry:
    def __init__(self): self.rules = {}
REGISTRY = Registry()
def register(fn):
    REGISTRY.rules[fn.__name__] = fn
    return fn
@register
def third(text): return 3
@singledispatch
def kind(x): return 1
@kind.register
def _(x: str): return 2
@kind.register
def _(x: int): return 3
async def g(thread):
    text = thread.completion()
    score = sum(SQUARES.values()) + sum(bool(p.search(text)) for p in PATTERNS.values()) + helper()
    score += len(BOTH) * 10 + len(MIXED) * 100 + kind("") + kind(3) + len(ALIASED) * 1000 + len(Base.known) * 10000
    return score + sum(f(text) for f in REGISTRY.rules.values()) + Child.bonus
""",
    )
    same(tmp_path, module.g, "a1", "b", "")


@pytest.mark.parametrize(
    "text",
    [
        "import xml.etree.ElementTree as ET\nX = ET.Element('a')\nchild = ET.SubElement(X, 'b')\nchild.text = '4'\n"
        "async def grade(thread): return float(X.findtext('b') == '4')",
        "from xml.etree.ElementTree import Element, SubElement\nX = Element('a')\nSubElement(X, 'b').text = '4'\n"
        "async def grade(thread): return float(X.findtext('b') == '4')",
        "import sqlite3\nX = sqlite3.connect(':memory:')\ncursor = X.cursor()\ncursor.execute('create table t(a)')\n"
        "async def grade(thread): return float(X.execute('select count(*) + 1 from t').fetchone()[0])",
        "import configparser\nX = configparser.ConfigParser()\nX.read_string('[a]')\nsection = X['a']\n"
        "section['b'] = '1'\nasync def grade(thread): return float(X['a'].get('b', '0'))",
        "import configparser\nX = configparser.ConfigParser()\nadd = X.read_string\nadd('[a]')\n"
        "async def grade(thread): return float(len(X.sections()))",
        "import random\nR = random.Random(5)\nX = [4, 3, 2, 1]\nR.shuffle(X)\nN = R.random()\n"
        "async def grade(thread): return N + X[0] + R.random() * 0",
    ],
)
def test_objects_come_along_as_other_names_changed_them(tmp_path: Path, text: str) -> None:
    same(tmp_path, load(tmp_path, text).grade)


@pytest.mark.parametrize(
    "text",
    [
        "COUNTS = {}\nX = {'counts': COUNTS}\nALL = [X]\n",
        "import json\nALL = json.loads('[{\"counts\": {}}]')\nCOUNTS = ALL[0]['counts']\n",
    ],
)
def test_a_container_in_another_one_stays_the_same_object(tmp_path: Path, text: str) -> None:
    grader = (
        "async def grade(thread):\n    COUNTS.clear()\n    COUNTS['a'] = len(thread.completion())\n"
        "    return float(ALL[0]['counts'].get('a', 100))"
    )
    same(tmp_path, load(tmp_path, text + grader).grade)


@pytest.mark.parametrize(
    "text",
    [
        "X = []\nTABLE = {'a': X, 'b': []}\n",
        "X = float('nan')\nTABLE = {'a': X, 'b': 1.0}\n",
        "import math as m\nX = m.nan\nTABLE = {'a': m.nan, 'b': 1.0}\n",
        "A = []\nX = A\nTABLE = {'a': A, 'b': 1.0}\n",
        "X, KEY = [], 'a'\nTABLE = {KEY: 5, 'b': X}\ndel KEY\n",
    ],
)
def test_a_table_holds_what_a_name_stands_for(tmp_path: Path, text: str) -> None:
    fn = load(tmp_path, text + "async def grade(thread): return float(TABLE['a'] is X) + len(TABLE)").grade
    same(tmp_path, fn)


@pytest.mark.parametrize(
    "text",
    [
        "from lxml import etree\nX = etree.Element('a')\nchild = etree.SubElement(X, 'b')\nchild.text = '4'\n",
        "from lxml import etree\nX = etree.fromstring('<a><b/></a>')\nchild = X.find('b')\nchild.text = '4'\n",
        "import numpy as np\nX = np.zeros(3)\nview = X[1:]\nview[:] = 4\n",
        "import networkx as nx\nX = nx.Graph()\nnx.add_path(X, [1, 2])\n",
        "import networkx as X\nX.least: int = 3\n",
        "import networkx as X\nX.least = 3\ndel X.least\n",
    ],
)
def test_objects_of_packages_come_along_as_other_names_changed_them(tmp_path: Path, text: str) -> None:
    fn = load(tmp_path, text + "async def grade(thread): return float(len(X))").grade
    lines = text.splitlines()
    assert lines[-1] in extract(fn, allowed=imports.of_packages("lxml", "networkx", "numpy"))


def test_what_a_program_does_to_other_objects_stays_here(tmp_path: Path) -> None:
    source = same(
        tmp_path,
        load(
            tmp_path,
            "import logging, types\nLOG = logging.getLogger('a')\nroot = logging.getLogger()\n"
            "handler = logging.NullHandler()\nroot.addHandler(handler)\nroot.removeHandler(handler)\n"
            "X = types.SimpleNamespace(a=1)\ntrainer = types.SimpleNamespace(x=X, log=[])\n"
            "trainer.log.append('trained')\nasync def grade(thread):\n  LOG.info('a')\n  return X.a\n",
        ).grade,
    )
    assert "Handler" not in source
    assert "train" not in source


def test_a_table_of_many_statements_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"TABLE[{n}] = re.compile('{n}')\n" for n in range(50))
    module = load(tmp_path, f"import re\nTABLE = {{}}\n{rows}async def g(thread): return len(TABLE)")
    search = mock.Mock(wraps=own_contents)
    monkeypatch.setattr("gradebox.source.following.own_contents", search)
    same(tmp_path, module.g)
    assert search.call_count < 10


def test_many_functions_that_the_module_runs_are_searched_once(tmp_path: Path) -> None:
    body = "    return d and f{1}(d) + len([1, 2, 3, 4, 5, 6, 7, 8, 9, [d, d + d, d * d, d - d, d / d]])\n"
    parts = [f"def f{n}(d):\n{body.format(n, (n + 1) % 150)}f{n}(0)\n" for n in range(150)]
    module = load(tmp_path, "".join(parts) + "async def g(thread):\n    return f0(0)\n")
    began = process_time()
    assert extract(module.g).count("def ") == 151
    assert process_time() - began < 1


def test_computed_and_changed_constants_are_uploaded_as_they_are_now(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a\nb\n")
    module = load(
        tmp_path,
        f"""
from pathlib import Path
THRESHOLD = 0.5
CACHE = {{}}
calls = 0
WORDS = frozenset(Path({str(tmp_path / "words.txt")!r}).read_text().split())
with open({str(tmp_path / "words.txt")!r}) as file:
    TEXT = file.read()
ODD = float("inf")
def configure():
    global THRESHOLD, MADE
    THRESHOLD = 0.25
    MADE = [None, True, (1,), b"x"]
configure()
async def g(thread):
    global calls
    calls += 1
    text = CACHE.setdefault(thread.completion(), thread.completion())
    return THRESHOLD + (text in WORDS) + len(TEXT) + len(MADE) + (ODD > 3)
""",
    )
    source = same(tmp_path, module.g, "a", "z")
    assert "THRESHOLD = 0.25\n" in source
    assert "WORDS = frozenset({'a', 'b'})\n" in source
    assert "CACHE = {}\ncalls = 0\n" in source, "what graders change themselves starts as the text says"
    assert "open(" not in source


def test_future_imports_come_first(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        '''"""A docstring."""
from __future__ import annotations
from typing import TYPE_CHECKING, ClassVar, Literal
from dataclasses import dataclass
if TYPE_CHECKING:
    import numpy as np
    from gradebox import StringThread

@dataclass
class Part:
    kind: Literal["a", "b"]

@dataclass
class Rule:
    shared: ClassVar[int] = 5
    own: int = 2
    parts: list[Part] | None = None

async def g(thread: StringThread, array: np.ndarray | None = None) -> float:
    return len(vars(Rule(3)))
''',
    )
    source = same(tmp_path, module.g)
    assert source.startswith("from __future__ import annotations\n")
    assert "ClassVar" in source, "dataclasses read this annotation"
    assert "import TYPE_CHECKING, ClassVar, Literal\n" in source, "pydantic reads those of models in annotations, too"


def test_strings_keep_their_indent_when_code_is_dedented(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        '''
if True:
    async def g(thread):
        text = """
        kept
    also"""
        return len(text)
''',
    )
    assert "async def grade(thread):\n    text" in same(tmp_path, module.g)


def test_a_guard_that_hides_modules_from_programs_is_uploaded(tmp_path: Path) -> None:
    """As in HumanEval, APPS and verl. It was refused: looking up a name in `sys.modules` is something else."""
    text = """import sys


def reliability_guard():
    sys.modules["joblib"] = None
    sys.modules.pop("joblib")


async def grade(thread):
    reliability_guard()
    return 1.0
"""
    assert same(tmp_path, load(tmp_path, text).grade) == text


def test_adaptive_graders_run_unchanged(tmp_path: Path) -> None:
    text = (
        "from adaptive_harmony import StringThread\n\n\nasync def grade(thread: StringThread) -> float:\n    return 1\n"
    )
    sys.modules["adaptive_harmony"] = load(tmp_path, "from gradebox.thread import StringThread\n", "adaptive_harmony")
    try:
        assert same(tmp_path, load(tmp_path, text).grade) == text
    finally:
        del sys.modules["adaptive_harmony"]


def test_scalars_of_numpy_that_python_has_too_are_uploaded_as_pythons(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        "import numpy as np\n"
        "LOW, WORDS = np.float64(0.1) * 3, {np.str_('a'): np.bool_(True)}\n"
        "async def g(thread): return LOW + WORDS['a']\n",
    )
    source = extract(module.g)
    assert "LOW = 0.30000000000000004\n" in source
    assert "WORDS = {'a': True}\n" in source
    assert "numpy" not in source


@pytest.mark.parametrize("value", ["np.float32(0.1)", "np.int64(7)", "np.array([1.0])"])
def test_values_of_numpy_that_calculate_in_another_way_are_refused(tmp_path: Path, value: str) -> None:
    module = load(tmp_path, f"import numpy as np\nLOW = {value}\nasync def g(thread): return LOW * 2\n")
    with pytest.raises(SourceError, match="numpy"):
        extract(module.g)


def test_scripts_that_run_directly(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from gradebox.source import extract\n"
        "PLUS = 1\n"
        "if __name__ == '__main__':\n"
        "    import math\n"
        "    TWICE = 2; THRICE = 3\n"
        "    async def g(thread):\n"
        "        return math.floor(len(thread.completion()) * TWICE + PLUS)\n"
        "    print(extract(g))\n"
    )
    source = _run([str(script)]).stdout
    assert source.startswith("PLUS = 1\nimport math\nTWICE = 2\n\n\nasync def grade(thread):\n    return ")
    assert run(tmp_path, source, ["abc"]) == [7]


@pytest.mark.parametrize("how", ["-c", "stdin"])
def test_code_without_a_file_gets_told_to_pass_a_string(how: str) -> None:
    program = "from gradebox.source import extract\nasync def g(t): return 1\nextract(g)\n"
    arguments, stdin = (["-c", program], "") if how == "-c" else (["-"], program)
    done = _run(arguments, stdin)
    if how == "-c" and hasattr(linecache, "_interactive_cache"):  # from Python 3.13.5 on, which keeps this text
        assert (done.returncode, done.stderr) == (0, "")
        return
    assert "SourceError: g was defined in <" in done.stderr
    assert "pass the source as a string" in done.stderr


def test_only_what_no_service_may_take_is_too_large(tmp_path: Path) -> None:
    text = "TEXT = {!r}\nasync def g(thread): return len(TEXT)\n"
    assert "x" * 500_000 in extract(load(tmp_path, text.format("x" * 500_000)).g)
    with pytest.raises(SourceError, match="bytes, and a grader may have 524,288 at most"):
        extract(load(tmp_path, text.format("x" * 530_000)).g)


def _run(arguments: list[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(gradebox.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, *arguments], input=stdin, capture_output=True, text=True, check=False, env=env
    )
