"""The values of an uploaded copy are those of the module, or the author is told of it."""

import asyncio
import calendar
import csv
import decimal
import difflib
import html.entities
import json
import os
import string
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import pytest

from gradebox import source
from gradebox.errors import GraderWarning, SourceError
from gradebox.snapshot import snapshot
from gradebox.snapshot.snapshot import Snapshot
from gradebox.source import extract, imports
from gradebox.thread import StringThread
from tests.gradebox.source.extracted import load, quiet, same

_DIFFER, _RATIO, _DEFAULT = difflib.Differ, difflib.SequenceMatcher.ratio, json.JSONEncoder.default
_LIMIT, _MARKS = sys.getrecursionlimit(), string.punctuation
_FILLED = {
    "by a loop": (
        "RULES = []\ndef add(fn): RULES.append((fn, 2))\n"
        "def four(t): return '4' in t\ndef space(t): return ' ' in t\n"
        "for fn in (four, space): add(fn)\n"
        "async def g(thread): return sum(w for f, w in RULES if f(thread.completion()))"
    ),
    "by decorators with arguments": (
        "RULES = []\ndef rule(weight):\n  def add(fn):\n    RULES.append({'fn': fn, 'weight': weight})\n    return fn\n"
        "  return add\n@rule(2)\ndef four(t): return '4' in t\n@rule(1)\ndef space(t): return ' ' in t\n"
        "async def g(thread): return sum(r['weight'] for r in RULES if r['fn'](thread.completion()))"
    ),
    "by subclasses": (
        "RULES = []\nclass Rule:\n  def __init_subclass__(cls): RULES.append(cls())\n"
        "class Four(Rule):\n  def score(self, t): return 2 * ('4' in t)\n"
        "async def g(thread): return sum(r.score(thread.completion()) for r in RULES)"
    ),
    "with functions that use modules which only compute": (
        "from difflib import SequenceMatcher\nfrom gradebox import Score\nRULES = []\n"
        "def add(fn): RULES.append((2, fn))\n"
        "def near(t): return Score(SequenceMatcher(None, '4', t).ratio())\nadd(near)\n"
        "RULES[:] = [(w, f) for w, f in RULES]\n"
        "async def g(thread): return sum(w * f(thread.completion()) for w, f in RULES)"
    ),
    "found by __subclasses__": (
        "class Rule: pass\nclass Four(Rule):\n  def score(self, t): return 2 * ('4' in t)\n"
        "async def g(thread): return sum(r().score(thread.completion()) for r in Rule.__subclasses__())"
    ),
    "with more than 16 KiB": (
        "TABLE = {}\ndef fill():\n  for n in range(5000): TABLE[str(n)] = n\nfill()\n"
        "async def g(thread): return TABLE.get(thread.completion(), 0.5)"
    ),
    "by a method": (
        "class Words:\n  def __init__(self): self.all = []\n  def load(self, words):\n    self.all = words\n"
        "    return self\nWORDS = Words()\n_ = WORDS.load(['4'])\n"
        "async def g(thread): return sum(word in thread.completion() for word in WORDS.all)"
    ),
    "by a function that sets a global": (
        "import re\nPATTERN = None\ndef set_up():\n  global PATTERN\n  PATTERN = re.compile('4')\nset_up()\n"
        "async def g(thread): return 1.0 if PATTERN and PATTERN.search(thread.completion()) else 0.5"
    ),
    "by a setting of a module": (
        "import decimal\nfrom decimal import Decimal\ncontext = decimal.getcontext()\ncontext.prec = 3\n"
        "async def g(thread): return float(Decimal(1) / Decimal(3))"
    ),
    "by a setting of a module that the grader imports": (
        "import decimal\ndecimal.getcontext().prec = 3\n"
        "async def g(thread):\n  from decimal import Decimal\n  return float(Decimal(1) / Decimal(3))"
    ),
    "as an attribute of a module": (
        "import string\nsetattr(string, 'marks', '!?')\nasync def g(thread): return len(getattr(string, 'marks', ''))"
    ),
    "as a queue": (
        "import queue\nQ = queue.Queue()\ndef fill():\n  for n in range(3): Q.put(n)\nfill()\n"
        "async def g(thread): return Q.qsize()"
    ),
    "by binding one of two names of an object anew": (
        "A = []\nB = A\ndef renew():\n  global A\n  A = []\nrenew()\n"
        "async def g(thread):\n  A.append(1)\n  return len(B)"
    ),
    "by binding one of two names of an object with attributes anew": (
        "class A: n = 0\nX = A()\nY = X\ndef renew():\n  global X\n  X = A()\nrenew()\n"
        "async def g(thread):\n  X.n = 5\n  return Y.n"
    ),
    "by a function that gets it": (
        "class Check:\n  def __init__(self, word): self.word, self.weight = word, 0.0\n"
        "CHECKS = [Check('4'), Check('a')]\ndef balance(checks):\n  for c in checks: c.weight = 1 / len(checks)\n"
        "balance(CHECKS)\nclass Report: weight = 0.0\n"
        "async def g(thread):\n  report = Report()\n  for c in CHECKS:\n"
        "    if c.word in thread.completion(): report.weight += c.weight\n  return report.weight"
    ),
    "by constructors": (
        "class Item:\n  all = {}\n  def __init__(self, word): Item.all[word] = self\nItem('4'); Item('a')\n"
        "async def g(thread): return sum(word in thread.completion() for word in Item.all)"
    ),
    "by constructors of objects that the grader does not use": (
        "class Rule:\n  count = 0\n  def __init__(self, word):\n    self.word = word\n    Rule.count += 1\n"
        "  def holds(self, text): return self.word in text\nA, B = Rule('4'), Rule('b')\nC = Rule('c')\n"
        "async def g(thread): return A.holds(thread.completion()) / Rule.count"
    ),
    "by a metaclass": (
        "class Meta(type):\n  made = []\n  def __new__(meta, *parts):\n    new = super().__new__(meta, *parts)\n"
        "    meta.made.append(new)\n    return new\nclass Four(metaclass=Meta): pass\n"
        "async def g(thread): return len(Meta.made)"
    ),
    "by decorators of functions that the grader does not use": (
        "NAMES = []\ndef rule(fn):\n  NAMES.append(fn.__name__)\n  return fn\n@rule\ndef four(t): return '4' in t\n"
        "@rule\ndef space(t): return ' ' in t\nasync def g(thread): return four(thread.completion()) / len(NAMES)"
    ),
    "and then used as a cache": (
        "TABLE = {}\ndef fill():\n  for word in ('4', 'a'): TABLE[word] = 1.0\nfill()\n"
        "def weight(word):\n  if word not in TABLE: TABLE[word] = 0.0\n  return TABLE[word]\n"
        "async def g(thread): return sum(weight(word) for word in thread.completion().split())"
    ),
    "with another method of the same name": (
        "class Registry:\n  def __init__(self): self.items = []\n  def add(self, word): self.items.append(word)\n"
        "ALL = Registry()\ndef load(): ALL.add('4')\nload()\n"
        "async def g(thread):\n  found = set()\n  for word in ALL.items:\n"
        "    if word in thread.completion(): found.add(word)\n  return len(found)"
    ),
    "without a rule that was deleted": (
        "RULES = {}\ndef rule(fn):\n  RULES[fn.__name__] = fn\n  return fn\n@rule\ndef four(t): return '4' in t\n"
        "@rule\ndef old(t): return 7\ndel RULES['old']\n"
        "async def g(thread): return sum(f(thread.completion()) for f in RULES.values())"
    ),
    "as attributes of the standard library": (
        "import textwrap\nWRAP = textwrap.TextWrapper()\ndef narrow(): WRAP.width = 1\nnarrow()\n"
        "async def g(thread): return len(WRAP.wrap('a b ' + thread.completion()))"
    ),
    "with defaults for other keys": (
        "from collections import defaultdict\nTABLE = defaultdict(lambda: 0.5)\ndef load(): TABLE['4'] = 3.0\nload()\n"
        "async def g(thread): return sum(TABLE[word] for word in thread.completion().split())"
    ),
    "in another order": (
        "RULES = {}\ndef rule(weight):\n  def add(fn):\n    RULES[fn.__name__] = weight\n    return fn\n  return add\n"
        "@rule(2)\ndef late(t): pass\n@rule(1)\ndef early(t): pass\ndef order():\n"
        "  items = sorted(RULES.items(), key=lambda item: item[1])\n  RULES.clear()\n  RULES.update(items)\norder()\n"
        "async def g(thread): return next(iter(RULES.values()))"
    ),
    "beside a long table": (
        "def sieve(n):\n  return [n % 2 > 0] * n\nPRIME = sieve(25_000)\nclass Ranks: top = 1\n"
        "def boost(): Ranks.top = 7\nboost()\nasync def g(thread): return Ranks.top * len(PRIME)"
    ),
    "in an array": (
        "from array import array\nWEIGHTS = array('d', [1.0])\ndef load(): WEIGHTS.append(7.0)\nload()\n"
        "async def g(thread): return sum(WEIGHTS)"
    ),
    "in a default argument": (
        "def score(word, table={'4': 1.0}): return table.get(word, 0.0)\n"
        "def set_up(): score.__defaults__[0]['4'] = 9.0\nset_up()\n"
        "async def g(thread): return score(thread.completion())"
    ),
    "by replacing a function of a module": (
        "import difflib\ndef ratio(self): return 0.25\nkept = difflib.SequenceMatcher.ratio\n"
        "difflib.SequenceMatcher.ratio = ratio\n"
        "async def g(thread): return difflib.SequenceMatcher(None, thread.completion(), '4').ratio()"
    ),
    "some by functions that name it, some by functions that get it": (
        "import re\nA, B = [], []\ndef add(): A.append(re.compile('4'))\ndef put(to): to.append(re.compile('a'))\n"
        "add()\nfor each in [B]: put(each)\n"
        "async def g(thread): return len(A) + sum(bool(p.search(thread.completion())) for p in B)"
    ),
    "of a configuration": (
        "import configparser\nX = configparser.ConfigParser()\ndef load(): X.read_string('[a]\\nb = 3')\nload()\n"
        "async def g(thread): return X.getfloat('a', 'b', fallback=1.0)"
    ),
    "by another setting of a module": (
        "import calendar\ncalendar.setfirstweekday(calendar.SUNDAY)\n"
        "async def g(thread): return calendar.firstweekday()"
    ),
}


@pytest.mark.parametrize("how", _FILLED)
def test_what_functions_fill_is_uploaded_filled(tmp_path: Path, how: str) -> None:
    same(tmp_path, load(tmp_path, _FILLED[how]).g)


@pytest.fixture(autouse=True)
def _restored_settings() -> Iterator[None]:
    """Restores what modules of these tests set in the standard library."""
    yield
    sys.setrecursionlimit(_LIMIT)
    calendar.setfirstweekday(calendar.MONDAY)
    csv.field_size_limit(131072)
    difflib.Differ, difflib.SequenceMatcher.ratio = _DIFFER, _RATIO  # type: ignore[misc, method-assign]
    json.JSONEncoder.default = _DEFAULT  # type: ignore[method-assign]
    string.punctuation = _MARKS  # type: ignore[misc]
    decimal.setcontext(decimal.Context())


_DIFFERENT = {
    "ARGUMENTS.limit is 5 here, and 3": (
        "import argparse\nARGUMENTS = argparse.Namespace(limit=3)\n"
        "def main():\n  print()\n  ARGUMENTS.limit = 5\nmain()\n"
        "async def g(thread): return ARGUMENTS.limit"
    ),
    "FIND.__self__ is re.compile('b', 32) here, and re.compile('a', 32)": (
        "import re\nFIND = re.compile('a').findall\ndef main():\n  global FIND\n  print()\n"
        "  FIND = re.compile('b').findall\nmain()\nasync def g(thread): return len(FIND(thread.completion()))"
    ),
    "PATTERN is re.compile('4', 32) here, and re.compile('b', 32)": (
        "import re\nWORD = '4'\nPATTERN = re.compile(WORD)\ndef later():\n  global WORD\n  WORD = 'b'\nlater()\n"
        "async def g(thread): return len(PATTERN.findall(thread.completion())) + len(WORD)"
    ),
    "helper (its default 1) is 3 here, and 5": (
        "LIMIT = 3\ndef helper(limit=LIMIT): return limit\ndef later():\n  global LIMIT\n  LIMIT = 5\nlater()\n"
        "async def g(thread): return helper() + LIMIT"
    ),
    "LIMITS.top is 5 here, and 3": (
        "class Limits:\n  def __init__(self): self.top = 3\nLIMITS = Limits()\nasync def g(thread): return LIMITS.top\n"
        "def main():\n  g\n  LIMITS.top = 5\nmain()"
    ),
    "LIMITS.least is 5 here, and 3": (  # the grader sets another object's, which it makes itself
        "class Limits:\n  def __init__(self, least): self.least = least\nLIMITS = Limits(3)\n"
        "async def g(thread):\n  own = Limits(1)\n  own.least = 2\n  return LIMITS.least + own.least\n"
        "def main():\n  g\n  LIMITS.least = 5\nmain()"
    ),
    "PARTS.weight is another value each time the source is loaded": (
        "import random\nclass Parts:\n  def __init__(self): self.weight = random.random()\nPARTS = Parts()\n"
        "async def g(thread): return PARTS.weight"
    ),
    "RULES has another order here than in the uploaded copy": (
        "def four(t): return 1\ndef two(t): return 2\nRULES = {'four': four, 'two': two}\n"
        "def order():\n  print()\n  RULES['four'] = RULES.pop('four')\norder()\n"
        "async def g(thread): return next(iter(RULES.values()))(thread)"
    ),
    "A is the same object as no other name here, and as B in": (
        "A = []\nB = A\ndef main():\n  global A\n  print()\n  A = []\nmain()\n"
        "async def g(thread):\n  A.append(1)\n  return len(B)"
    ),
    "json.JSONEncoder.default is function default here, and function json.encoder.JSONEncoder.default": (
        "import json\nkept = json.JSONEncoder.default\ndef default(self, o): return str(o)\n"
        "def main():\n  print()\n  json.JSONEncoder.default = default\nmain()\n"
        "async def g(thread): return len(json.dumps(1j))"
    ),
    "difflib.Differ is class Own here, and class difflib.Differ": (
        "import difflib\nclass Own: pass\ndef set_up(): setattr(difflib, 'Differ', Own)\nprint(set_up())\n"
        "async def g(thread): return hasattr(difflib.Differ, 'compare')"
    ),
    "string.punctuation is '!?' here, and ": (
        "import string\ndef main():\n  print()\n  string.punctuation = '!?'\nmain()\n"
        "async def g(thread): return sum(c in string.punctuation for c in thread.completion())"
    ),
    "csv.settings['field size limit'] is 10 here, and 131072": (
        "import csv\ndef main():\n  print()\n  csv.field_size_limit(10)\nmain()\n"
        "async def g(thread): return csv.field_size_limit()"
    ),
    "warnings.errors is 'SyntaxWarning' here, and ''": (
        "import warnings\ndef main():\n  print()\n  warnings.simplefilter('error', SyntaxWarning)\nmain()\n"
        "async def g(thread): return len(compile('1 is 1', 'x', 'exec').co_code)"
    ),
    "decimal.getcontext()['prec'] is 4 here, and 28": (
        "from decimal import Decimal, getcontext\ndef main():\n  print()\n  getcontext().prec = 4\nmain()\n"
        "async def g(thread): return float(Decimal(1) / Decimal(3))"
    ),
    "sys.limits['recursion limit'] is 3000 here, and 1000": (
        "import sys\ndef main():\n  print()\n  sys.setrecursionlimit(3000)\nmain()\n"
        "class A: one = 1\nasync def g(thread): return A.one"
    ),
    "g (n of its closure) is 2 here, and 3 in the uploaded copy": (
        "import functools\nC = {'n': 2}\ndef scaled(fn):\n  n = C['n']\n  @functools.wraps(fn)\n"
        "  async def scaled_fn(thread): return n * await fn(thread)\n  return scaled_fn\n"
        "@scaled\nasync def g(thread): return 1.0\ndef change(): C['n'] = 3\nchange()"
    ),
    "RULES is dict of 1 here, and dict of 0": (  # what would be too long is not added
        "import re\nRULES = {}\ndef fill():\n  RULES['a'] = re.compile('a')\n"
        f"  return '{'x' * 70_000}'\nfill()\nasync def g(thread): return len(RULES)"
    ),
}


@pytest.mark.parametrize("message", _DIFFERENT)
def test_the_author_is_told_of_what_cannot_be_made_equal(tmp_path: Path, message: str) -> None:
    module = load(tmp_path, _DIFFERENT[message])
    with pytest.warns(GraderWarning) as caught:
        assert "async def grade(thread)" in extract(module.g)
    [warning] = [each for each in caught if each.category is GraderWarning]
    assert f"g may score differently once it is uploaded: {message}" in str(warning.message)
    assert warning.filename == __file__


_LOOKS_UP = {
    "globals()": "def a(): return 1\nasync def g(thread): return globals()['a']()",
    "sys.modules[__name__]": "import sys\ndef a(): return 1\nasync def g(thread): return sys.modules[__name__].a()",
}


@pytest.mark.parametrize("how", _LOOKS_UP)
def test_names_that_are_looked_up_as_texts_are_refused(tmp_path: Path, how: str) -> None:
    with pytest.raises(SourceError, match="only what a grader names is uploaded"):
        extract(load(tmp_path, _LOOKS_UP[how]).g)


def test_a_module_of_the_author_that_hides_one_of_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "colorsys.py").write_text("def weight(): return 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    module = load(tmp_path, "import colorsys\nasync def g(thread): return colorsys.weight()")
    with pytest.raises(SourceError, match="the module colorsys is not uploaded"):
        extract(module.g)
    sys.modules.pop("colorsys")


def test_a_function_that_was_replaced_by_another_of_the_module(tmp_path: Path) -> None:
    text = "def a(): return 1\ndef b(): return 2\ndef swap():\n  global a\n  a = b\n{}async def g(thread): return a()"
    same(tmp_path, load(tmp_path, text.format("swap()\n")).g)
    module = load(tmp_path, text.format(""))
    module.swap()
    with pytest.warns(GraderWarning, match="a is function b here, and function a in the uploaded copy"):
        extract(module.g)


def test_a_decorated_function_that_was_edited_since_its_import(tmp_path: Path) -> None:
    text = "import functools\n@functools.cache\ndef a(): return 1\nasync def g(thread): return a()\n"
    module = load(tmp_path, text)
    Path(str(module.__file__)).write_text(text.replace("return 1", "return 2"))
    with pytest.warns(GraderWarning, match=r"a\.__wrapped__ is another function here than in the text"):
        extract(module.g)


_COUNTER = "def counter():\n  n = 0\n  def count():\n    nonlocal n\n    n += 1\n    return n\n  return count\n"
_ADVANCED = {
    "a closure": _COUNTER + "count = counter()\nIDS = [count() for _ in range(3)]\n"
    "async def g(thread): return count() + len(IDS)",
    "a global": "N = 0\ndef count():\n  global N\n  N += 1\n  return N\nFIRST = count()\n"
    "async def g(thread): return count()",
    "an attribute of a class": "class Rule:\n  made = 0\n  def __init__(self):\n    Rule.made += 1\n"
    "    self.number = Rule.made\nOTHERS = [Rule(), Rule()]\nasync def g(thread): return Rule().number",
    "a default argument": "def count(kept=[0]):\n  kept[0] += 1\n  return kept[0]\nFIRST = count()\n"
    "async def g(thread): return count()",
    "an iterator": "import itertools\nN, ALL = itertools.count(), itertools.cycle('abc')\nFIRST = next(N), next(ALL)\n"
    "async def g(thread): return next(N) + ord(next(ALL))",
    "a list from which it takes": "LEFT = [3, 2, 1]\ndef take(): return LEFT.pop()\nFIRST = take()\n"
    "async def g(thread): return take() if LEFT else 0",
    "a fraction": "from fractions import Fraction\nX = Fraction(1, 2)\ndef half():\n  global X\n  X = X / 2\n"
    "  return X\nFIRST = half()\nasync def g(thread): return half()",
    "an iterator by its method": "import itertools\ncount = itertools.count().__next__\nFIRST = count()\n"
    "async def g(thread): return count()",
    "iterators that end": "W, P = map(len, ['a', 'bb']), zip('ab', [1, 2])\nTOTAL, TABLE = sum(W), dict(P)\n"
    "async def g(thread): return TOTAL + sum(W) + len(list(P))",
    "an iterator by a loop": "LINES = iter(['a', '4', 'bb'])\nfor line in LINES:\n  if line == '4': break\n"
    "async def g(thread): return len(next(LINES, ''))",
    "a generator": "def numbers():\n  n = 0\n  while True:\n    yield n\n    n += 1\nN = numbers()\nFIRST = next(N)\n"
    "async def g(thread): return next(N)",
    "a generator of random numbers": "import random\nR = random.Random(5)\nNOISE = [R.random()]\n"
    "async def g(thread): return R.random() + NOISE[0]",
    "a stream": "import io\nS = io.StringIO('a\\nbb\\n')\ndef skip(): return S.readline()\nHEAD = skip()\n"
    "async def g(thread): return len(S.readline()) + len(HEAD)",
    "a reader": "import csv\nROWS = csv.reader(['a', 'b'])\nHEAD = next(ROWS)\n"
    "async def g(thread): return len(list(ROWS))",
    "a context variable": "import contextvars\nW = contextvars.ContextVar('W', default=1)\ndef set_up(): W.set(5)\n"
    "set_up()\nasync def g(thread): return W.get()",
    "a context variable, kept": "import contextvars\nW = contextvars.ContextVar('W', default=1)\ntoken = W.set(5)\n"
    "async def g(thread): return W.get()",
    "weak references": "import weakref\nclass Rule:\n  all = weakref.WeakSet()\n"
    "  def __init__(self): self.all.add(self)\nA, B = Rule(), Rule()\nasync def g(thread): return len(Rule.all)",
}


@pytest.mark.parametrize("what", _ADVANCED)
def test_what_the_module_advanced_is_uploaded_as_far_as_it_was(tmp_path: Path, what: str) -> None:
    same(tmp_path, load(tmp_path, _ADVANCED[what]).g)


def test_a_counter_starts_where_the_module_left_it_also_after_a_trial(tmp_path: Path) -> None:
    text = "import itertools\nN = itertools.count()\nFIRST = next(N)\nasync def g(thread): return next(N)"
    module = load(tmp_path, text)
    asyncio.run(module.g(StringThread([("assistant", "4")])))
    assert "FIRST = next(N)" in quiet(module.g)


_ADVANCED_BY_PROGRAMS = {
    "count (n of its closure) is 1 here, and 0 in the uploaded copy": _COUNTER + "count = counter()\nprint(count())\n"
    "async def g(thread): return count()",
    "N has another state here than in the uploaded copy": "import itertools\nN = itertools.count()\nprint(next(N))\n"
    "async def g(thread): return next(N)",
}


@pytest.mark.parametrize("message", _ADVANCED_BY_PROGRAMS)
def test_the_author_is_told_of_what_a_program_advanced(tmp_path: Path, message: str) -> None:
    module = load(tmp_path, _ADVANCED_BY_PROGRAMS[message])
    with pytest.warns(GraderWarning) as caught:
        extract(module.g)
    assert f"{message}, perhaps by user_module_" in str(caught[0].message)


_SHOWN_ALONE = {
    "a number of calls": "class Cache:\n  def __init__(self): self.kept, self.hits = {}, 0\n  def get(self, t):\n"
    "    self.hits += 1\n    self.kept[t] = len(t)\n    return self.kept[t]\nCACHE = Cache()\nprint(CACHE.get('a'))\n"
    "CACHE.hits\nasync def g(thread): return CACHE.get(thread.completion())",
    "a mean": "MEAN = 0.0\ndef length(t):\n  global MEAN\n  MEAN = 0.9 * MEAN + 0.1 * len(t)\n  return len(t)\n"
    "print(length('a'), MEAN)\nasync def g(thread): return length(thread.completion())",
    "what the first call makes": "import re\nKEPT, N = None, 0\ndef kept():\n  global KEPT\n"
    "  if KEPT is None: KEPT = re.compile('4')\n  return KEPT\nprint(kept())\n"
    "async def g(thread): return len(kept().findall(thread.completion()))",
    "numbers of an iterator by calls of the grader": "import asyncio, itertools\nN = itertools.count()\n"
    "class Thread:\n  def completion(self): return '4'\n"
    "async def g(thread): return next(N) * 0 + len(thread.completion())\nprint(asyncio.run(g(Thread())))",
}


@pytest.mark.parametrize("what", _SHOWN_ALONE)
def test_numbers_that_no_score_depends_on_are_no_difference(tmp_path: Path, what: str) -> None:
    same(tmp_path, load(tmp_path, _SHOWN_ALONE[what]).g)


_CHANGED_BY_THE_GRADER = {
    "an object": (
        "class Cache:\n  def __init__(self): self.kept, self.hits = {}, 0\n  def get(self, t):\n    self.hits += 1\n"
        "    kept = self.kept\n    kept[t] = len(t)\n    return kept[t]\nCACHE = Cache()\n"
        "async def g(thread): return CACHE.get(thread.completion())"
    ),
    "an argument": (
        "import re\nKEPT = {}\ndef compiled(kept, word):\n  kept[word] = re.compile(word)\n  return kept[word]\n"
        "async def g(thread): return len(compiled(KEPT, 'a').findall(thread.completion()))"
    ),
    "a default": (
        "import collections\nCOUNTS = collections.defaultdict(int)\nclass A: pass\nOTHER = A()\n"
        "async def g(thread): return COUNTS[thread.completion()]"
    ),
    "what a decorator keeps": (
        "def kept(fn):\n  cache = {}\n  def inner(t):\n    if t not in cache: cache[t] = fn(t)\n    return cache[t]\n"
        "  return inner\n@kept\ndef length(t): return len(t)\nasync def g(thread): return length(thread.completion())"
    ),
    "combined flags": (
        "import enum\nclass Kind(enum.Flag):\n  A = 1\n  B = 2\n  C = 4\n"
        "async def g(thread): return (Kind.A | Kind.C).value"
    ),
    "a dict that adds what it lacks": (
        "class Lengths(dict):\n  def __missing__(self, key):\n    self[key] = len(key)\n    return self[key]\n"
        "LENGTHS = Lengths()\nasync def g(thread): return LENGTHS[thread.completion()]"
    ),
    "the cache of singledispatch": (
        "from functools import singledispatch\n@singledispatch\ndef kind(x): return 1\n"
        "kind.register(str, lambda x: 2)\nasync def g(thread): return kind(thread.completion())"
    ),
    "a default argument": (
        "def length(t, kept={}):\n  if t not in kept: kept[t] = len(t)\n  return kept[t]\n"
        "@staticmethod\ndef other(t): return t\nasync def g(thread): return length(other(thread.completion()))"
    ),
    "a counter of a decorator": (
        "def counted(fn):\n  n = 0\n  def inner(t):\n    nonlocal n\n    n += 1\n    return fn(t)\n"
        "  return inner\n@counted\ndef length(t): return len(t)\n"
        "async def g(thread): return length(thread.completion())"
    ),
    "the only object of a class": (
        "class One:\n  made = None\n  def __new__(cls):\n    if cls.made is None: cls.made = super().__new__(cls)\n"
        "    return cls.made\nasync def g(thread): return One() is One()"
    ),
    "a default that a function makes": (
        "import collections\nclass A: pass\nA.weights = collections.defaultdict(lambda: 1.0, {'4': 2.0})\n"
        "async def g(thread): return A.weights[thread.completion()]"
    ),
    "a protocol": (
        "from typing import Protocol\nclass Rule(Protocol):\n  def score(self, t): ...\nclass Length(Rule):\n"
        "  def score(self, t): return len(t)\nasync def g(thread): return Length().score(thread.completion())"
    ),
    "an attribute of a class by an object of a derived one": (
        "class Base:\n  kept, count = {}, 0\nclass Length(Base):\n  def of(self, t):\n    self.kept[t] = len(t)\n"
        "    Base.count += 1\n    return self.kept[t]\nLENGTH = Length()\n"
        "async def g(thread): return LENGTH.of(thread.completion())"
    ),
    "an attribute of what a decorator made": (
        "import functools\ndef counted(fn):\n  @functools.wraps(fn)\n  def inner(t):\n    inner.calls += 1\n"
        "    return fn(t)\n  inner.calls = 0\n  return inner\n@counted\ndef length(t): return len(t)\n"
        "async def g(thread): return length(thread.completion())"
    ),
    "a limit of the interpreter": (
        "import sys\nclass A: one = 1\nasync def g(thread):\n  sys.setrecursionlimit(3000)\n  return A.one"
    ),
    "a property": (
        "import functools\nclass A:\n  @functools.cached_property\n  def words(self): return ['4']\nONE = A()\n"
        "async def g(thread): return sum(word in thread.completion() for word in ONE.words)"
    ),
    "generators of random numbers, locks and counters": (
        "import itertools, logging, random, threading\nRANDOM, LOCK = random.Random(1), threading.Lock()\n"
        "IDS, LOG = itertools.count(), logging.getLogger('g')\n"
        "async def g(thread):\n  with LOCK: return (RANDOM.random() + next(IDS)) * 0 + LOG.isEnabledFor(10)"
    ),
}


@pytest.mark.parametrize("what", _CHANGED_BY_THE_GRADER)
def test_what_the_grader_changed_while_it_was_tried_is_no_difference(tmp_path: Path, what: str) -> None:
    module = load(tmp_path, _CHANGED_BY_THE_GRADER[what])
    asyncio.run(module.g(StringThread([("assistant", "4 tried")])))
    same(tmp_path, module.g)


_EQUAL = {
    "sets, whose order differs": (
        "class A: pass\nA.pairs = {(a, b) for a in 'abcd' for b in 'efgh'}\nA.by = {p: 1 for p in A.pairs}\n"
        "async def g(thread): return len(A.pairs) + A.by['a', 'e']"
    ),
    "objects that cannot be looked at": (
        "class A:\n  def __getattr__(self, name): raise OSError(name)\n  def __eq__(self, other): raise OSError\n"
        "  def __hash__(self): return 1\n  def __repr__(self): raise OSError\n"
        "ALL = {A(): A(), 'b': {A()}}\nasync def g(thread): return len(ALL)"
    ),
    "more parts than are described": (
        "class A: pass\nA.pairs = {str(n): [n] for n in {str(n) for n in range(25_000)}}\n"
        "async def g(thread): return len(A.pairs)"
    ),
    "what differs in each process": (
        "import datetime, re, uuid\nWORDS = {'the', 'a', 'of', 'four', 'five'}\nANY = re.compile('|'.join(WORDS))\n"
        "class First: words = [word for word in WORDS]\nSTARTED, RUN = datetime.datetime.now(), uuid.uuid4()\n"
        "async def g(thread): return bool(ANY.search(thread.completion())) + bool(STARTED and RUN and First.words) * 0"
    ),
    "a class in the grader": (
        "class A: pass\nasync def g(thread):\n  class B: pass\n  A()\n  return B.__name__ == 'B'"
    ),
    "a class in the grader, whose line differs": (
        "UNUSED = 1\n" * 300 + "class A: pass\nasync def g(thread):\n  A()\n  class B:\n    one = 303\n    two = 'x'\n"
        "    def three(self): self.four = 3\n  try: return B.__firstlineno__ * 0 + B.one\n"
        "  except AttributeError: return B.one"
    ),
    "a list without end": (
        "class Rules(list):\n  def __iter__(self):\n    while True: yield 1\nRULES = Rules([1, 2])\n"
        "async def g(thread): return len(RULES)"
    ),
    "objects in a circle": (
        "class A: pass\nONE, TWO = A(), A()\nONE.other, TWO.other = TWO, ONE\nTWO.all = [ONE, TWO]\n"
        "async def g(thread): return len(ONE.other.all)"
    ),
    "two names of one container": (
        "def load(): return [1, 2]\nALL = load()\nNOW = ALL\nasync def g(thread):\n  ALL.append(3)\n  return len(NOW)"
    ),
    "the name of the grader, which code reads": (
        "import functools\nWEIGHTS = {'g': 0.5}\ndef weighted(fn):\n  @functools.wraps(fn)\n"
        "  async def scored(thread): return WEIGHTS.get(fn.__name__, 1) * await fn(thread)\n  return scored\n"
        "def _named(value): return value\n"
        "@weighted\nasync def g(thread): return len(thread.completion()) * _named(g.__name__ == 'g')"
    ),
    "the folder of temporary files": (
        "import tempfile\nfrom pathlib import Path\nWORK = Path(tempfile.gettempdir()) / 'work'\n"
        "async def g(thread): return len(WORK.name)"
    ),
}


@pytest.mark.parametrize("what", _EQUAL)
def test_equal_values_are_no_difference(tmp_path: Path, what: str) -> None:
    same(tmp_path, load(tmp_path, _EQUAL[what]).g)


@pytest.mark.parametrize(
    "text",
    [
        "class Sub(BaseModel): a: int = 1\nclass Item(BaseModel): sub: Sub = Sub()\n"
        "async def g(thread): return Item.model_validate_json(thread.completion()).sub.a",
        "class Item(BaseModel): a: int = 1\ndef parse():\n  item = Item()\n  item.a = 2\n  return item\n"
        "async def g(thread): return parse().a",
    ],
    ids=["new", "changed by a trial"],
)
def test_models_of_pydantic_are_no_difference(tmp_path: Path, text: str) -> None:
    module = load(tmp_path, f"from pydantic import BaseModel\n{text}")
    if "parse" in text:
        module.parse()
    quiet(module.g, allowed=imports.of_packages("pydantic"))


def test_tables_of_pandas_are_compared(tmp_path: Path) -> None:
    text = (
        "import pandas as pd\nTABLE = pd.DataFrame({'a': [1.5, None], 'b': ['x', None]})\n"
        "def fill(): TABLE.loc[0, 'a'] = 100\n{}async def g(thread): return TABLE['a'].sum()"
    )
    allowed = imports.of_packages("pandas")
    quiet(load(tmp_path, text.replace("{}", "")).g, allowed=allowed)
    with pytest.warns(GraderWarning, match=r"TABLE is DataFrame \(2, 2\), .* here, and DataFrame \(2, 2\), "):
        extract(load(tmp_path, text.replace("{}", "fill()\n")).g, allowed=allowed)


def test_a_reference_with_a_long_number_is_compared(tmp_path: Path) -> None:
    """It was taken for an address in a schema of pydantic."""
    text = "class Case:\n  def __init__(self): self.table = {'ref': 'doc:123456789'}\nCASE = Case()\n"
    module = load(tmp_path, text + "async def g(thread): return float(CASE.table['ref'] == thread.completion())")
    module.CASE.table["ref"] = "doc:987654321"
    with pytest.warns(GraderWarning, match="g may score differently once it is uploaded"):
        extract(module.g)


_OBJECTS = {
    "a list with attributes": ("from collections import UserList\nX = UserList()", "X.append(1)"),
    "a queue": ("import queue\nX = queue.SimpleQueue()", "X.put(1)"),
    "a queue of asyncio": ("import asyncio\nX = asyncio.Queue()", "X.put_nowait(1)"),
    "a context": ("import decimal\nX = decimal.Context()", "X.prec = 5"),
    "an element": ("import xml.etree.ElementTree as ET\nX = ET.Element('a')", "X.set('b', 'c')"),
    "an array of objects": ("import numpy as np\nX = np.array([{'a': 1}])", "X[0]['a'] = 2"),
    "an array with a mask": ("import numpy as np\nX = np.ma.array([1, 2], mask=[1, 0])", "X[0] = 3"),
    "what gives an array": ("import pandas as pd\nX = pd.Index([1, 2])", "X = pd.Index([1, 3])"),
    "a database": ("import sqlite3\nX = sqlite3.connect(':memory:')\nX.execute('create table t (n)')",
                   "X.execute('insert into t values (1)')"),
}  # fmt: skip


@pytest.mark.parametrize("what", _OBJECTS)
def test_what_an_object_holds_is_described(what: str) -> None:
    values: dict[str, object] = {}
    found = []
    for statements in _OBJECTS[what]:
        exec(statements, values)
        found.append(Snapshot(values, {}))
        found[-1].add("X")
    assert found[0].texts != found[1].texts


def test_a_constant_of_this_time_zone_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        text = "from datetime import datetime\nX = datetime.fromtimestamp(0)\nasync def g(thread): return X.hour"
        with pytest.warns(GraderWarning, match=r"X is datetime.datetime\(1970, 1, 1, 9, 0\) here, and datetime"):
            extract(load(tmp_path, text).g)
    time.tzset()


def test_limits_that_a_module_of_the_author_sets_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    load(tmp_path, "import sys\ndef set_up():\n  print()\n  sys.setrecursionlimit(3000)\n", "my_limits")
    module = load(tmp_path, "from my_limits import set_up\nset_up()\nasync def g(thread): return 1")
    with pytest.warns(GraderWarning, match=r"sys.limits\['recursion limit'\] is 3000 here, and 1000"):
        extract(module.g)


def test_the_author_is_told_that_texts_have_no_names_of_the_module(tmp_path: Path) -> None:
    text = "import math, string\nasync def g(thread): return eval(thread.completion(){}) + len(string.digits)"
    with pytest.warns(GraderWarning, match=r'uses math raises .*, as in eval\(text, {"math": math}\)'):
        extract(load(tmp_path, text.format("")).g)
    quiet(load(tmp_path, text.format(", {}")).g)


def test_of_a_very_long_container_only_the_length_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_MOST_DIGESTED", 1500)
    found = Snapshot({"SHORT": [1] * 1500, "LONG": [1] * 1501}, {})
    found.add("SHORT")
    found.add("LONG")
    assert found.texts["SHORT"].startswith("list of 1500, ")
    assert found.texts["LONG"] == "list of 1501, not compared"
    assert len(found.texts["SHORT"]) == len("list of 1500, ") + 16


def test_what_gives_a_very_large_array_is_not_read() -> None:
    class File:
        nbytes = 10**12

        def __array__(self) -> None:
            raise AssertionError

    found = Snapshot({"X": File()}, {})
    found.add("X")
    assert "?" not in found.texts.values()


@pytest.mark.parametrize("is_bfloat16", [False, True])
def test_the_weights_of_a_model_of_torch_are_described(is_bfloat16: bool) -> None:
    class Tensor:  # torch is not installed
        __module__ = "torch"

        def __init__(self, value: float, is_bfloat16: bool = False) -> None:
            self.value = value
            self.is_bfloat16 = is_bfloat16

        def numpy(self, *, force: bool) -> np.ndarray[Any, Any]:
            if self.is_bfloat16 or not force:
                raise TypeError("Got unsupported ScalarType BFloat16")
            return np.full(2, self.value)

        def float(self) -> "Tensor":
            return Tensor(self.value)

        def __array__(self) -> None:
            raise RuntimeError("it requires grad")

    class Module:
        __module__ = "torch.nn.modules.module"

        def __init__(self, value: float, training: bool = True) -> None:
            self.value = value
            self.training = training

        def state_dict(self) -> dict[str, Tensor]:
            return {"w": Tensor(self.value, is_bfloat16)}

        def modules(self) -> "list[Module]":
            return [self]

    class Linear(Module):
        __module__ = "torch.nn.modules.linear"

    class Own(Module):
        __module__ = "own"

        def state_dict(self) -> dict[str, Tensor]:
            raise RuntimeError("it is gathered from other processes")

    def differing(one: Module, other: Module) -> list[str]:
        told = []
        for model in (one, other):
            found = Snapshot({"__name__": "own", "MODEL": model}, {})
            found.add("MODEL")
            told.append(found.texts)
        assert "?" not in (text for texts in told for text in texts.values())
        return [path for path in told[0] if told[0][path] != told[1][path]]

    assert differing(Linear(1.0), Linear(1.0)) == []
    assert differing(Linear(1.0), Linear(2.0)) == ["MODEL.state_dict()['w'].__array__()"]
    assert differing(Linear(1.0), Linear(1.0, training=False)) == ["MODEL.training[0]"]
    assert differing(Own(1.0), Own(2.0)) == ["MODEL.value"]


_NOT_UPLOADED = {
    "trials of a helper": (
        "import re\nKNOWN = {}\ndef pattern(word):\n  if word not in KNOWN: KNOWN[word] = re.compile(word)\n"
        "  return KNOWN[word]\ntried = [pattern(word) for word in ('a', 'b')]\n"
        "async def g(thread): return float(bool(pattern('4').search(thread.completion())))"
    ),
    "trials of the grader": (
        "import asyncio\nclass Rule:\n  def __init__(self): self.words = []\n"
        "  def load(self, word): self.words.append(word)\nRULE = Rule()\ndef set_up(): RULE.load('4')\nset_up()\n"
        "class Thread:\n  def completion(self): return '4'\n"
        "async def g(thread): return float(any(word in thread.completion() for word in RULE.words))\n"
        "tried = asyncio.run(g(Thread()))"
    ),
    "a function that computes for long, for its setting": (
        "import warnings\ndef tried():\n  warnings.simplefilter('ignore')\n  for step in range(3): step *= 2\ntried()\n"
        "async def g(thread): return 1"
    ),
}


@pytest.mark.parametrize("what", _NOT_UPLOADED)
def test_statements_that_change_no_score_are_not_uploaded(tmp_path: Path, what: str) -> None:
    with warnings.catch_warnings():
        copied = same(tmp_path, load(tmp_path, _NOT_UPLOADED[what]).g)
    assert "tried" not in copied
    assert ("set_up()" in copied) == ("set_up()" in _NOT_UPLOADED[what])


def test_a_copy_that_does_not_run_here_is_left_to_the_checks(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("4")
    module = load(
        tmp_path,
        f"class A:\n  words = open({str(words)!r}).read()\nasync def g(thread): return A.words in thread.completion()",
    )
    words.unlink()
    assert "class A:" in extract(module.g)


def test_names_of_variables_of_the_grader_hide_no_difference(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        "class Words:\n  def __init__(self): self.words = []\nALL = Words()\n"
        "def set_up(): ALL.words.extend(['4', 'a'])\n"
        "set_up()\nasync def g(thread):\n  words = []\n  for w in thread.completion().split(): words.append(w)\n"
        "  return sum(w in ALL.words for w in words)",
    )
    assert "set_up()" in same(tmp_path, module.g)


_PROGRAMS = {
    "writes a file": "open({path!r}, 'a').close()",
    "uploads the grader": "[each(None) for each in GRADERS]",
    "runs a program": "subprocess.run(['touch', {path!r}])",
}


@pytest.mark.parametrize("what", _PROGRAMS)
def test_programs_are_not_run_again(tmp_path: Path, what: str) -> None:
    written = tmp_path / "written"
    action = _PROGRAMS[what].format(path=str(written))
    module = load(
        tmp_path,
        "import re, subprocess\nCONFIG = {'pattern': re.compile('4'), 'n': 1}\n"
        "async def g(thread): return CONFIG['n']\nGRADERS = [g]\n"
        f"def main():\n  CONFIG['n'] = 5\n  {action}\nmain()",
    )
    written.unlink(missing_ok=True)
    with pytest.warns(GraderWarning, match=r"CONFIG\['n'\] is 5 here, and 1 in the uploaded copy"):
        assert "main()" not in extract(module.g)
    assert not written.exists()


def test_a_slow_copy_is_told_and_holds_up_nothing_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_COMPARISON_S", 1.0)
    text = f"import os, time\nclass A: one = 1 if os.getpid() == {os.getpid()} else time.sleep(60)\n"
    module = load(tmp_path, text + "async def g(thread): return A.one")
    began = time.monotonic()
    with pytest.warns(GraderWarning, match="the copy took longer than 1 s to load, so its values were not compared"):
        assert "class A" in extract(module.g)
    assert time.monotonic() - began < 10


_ENDS = {
    "exits": "import sys\nclass A: one = 1 if {first} else sys.exit(0)",
    "replaces its output": "import io, sys\nclass A:\n  one, sys.stdout = 1, sys.stdout if {first} else io.StringIO()",
    "prints bytes": "import os\nclass A: one = 1 if {first} else os.write(1, b'\\xff') * 0 + 1",
}


@pytest.mark.parametrize("how", _ENDS)
def test_a_copy_that_ends_or_prints_while_it_is_compared(tmp_path: Path, how: str) -> None:
    first = f"__import__('os').getpid() == {os.getpid()}"
    text = _ENDS[how].format(first=first) + "\nasync def g(thread): return A.one"
    assert "class A" in extract(load(tmp_path, text).g)


_READS_FILES = {
    "relative": (
        "from pathlib import Path\nWORDS = re.compile('|'.join(p.read_text() for p in Path('words').glob('*')))"
    ),
    "where it is": "WORDS = re.compile(open(FILE).read() if os.path.exists(FILE) else 'x')",
    "else another": "try: WORDS = re.compile(open(FILE).read())\nexcept OSError: WORDS = re.compile('x')",
}


@pytest.mark.parametrize("how", _READS_FILES)
def test_the_author_is_told_of_files_that_a_sandbox_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "words" / "a"
    file.parent.mkdir()
    file.write_text("4")
    head = f"import os, re\nFILE = {str(file)!r}\n"
    grader = "async def g(thread): return len(WORDS.findall(thread.completion()))"
    module = load(tmp_path, f"{head}{_READS_FILES[how]}\n{grader}")
    with pytest.warns(GraderWarning, match=r"WORDS is re.compile\('4', 32\) here.*a sandbox has none of yours"):
        extract(module.g)


def test_the_author_is_told_of_variables_that_a_sandbox_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_REWARD_MODE", "strict")
    text = (
        "import os\ndef mode(): return os.environ.get('MY_REWARD_MODE', 'mild')\nclass Rule: mode = mode()\n"
        "async def g(thread): return len(Rule.mode)"
    )
    with pytest.warns(GraderWarning, match="Rule.mode is 'strict' here, and 'mild' in the uploaded copy"):
        extract(load(tmp_path, text).g)


def test_files_of_the_author_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "import re\nPATTERN = re.compile('4')\nclass Log:\n"
        "  def __init__(self, path): self.file = open(path, 'w')\n"
        f"LOGS = [Log('a.log'), Log({str(tmp_path / 'b.log')!r})]\n"
        "async def g(thread):\n  print(thread.completion(), file=LOGS[0].file)\n"
        "  return len(PATTERN.findall(thread.completion()))"
    )
    module = load(tmp_path, text)
    for log in module.LOGS:
        print("kept", file=log.file, flush=True)
    extract(module.g)
    for log in module.LOGS:
        log.file.close()
    assert [(tmp_path / name).read_text() for name in ("a.log", "b.log")] == ["kept\n"] * 2


_SETTINGS = {
    "of decimal, by a function": "import decimal\nfrom decimal import Decimal\ndef set_up():\n"
    "  decimal.getcontext().traps[decimal.DivisionByZero] = False\nset_up()\n"
    "async def g(thread): return float((Decimal(1) / 0).is_infinite())",
    "of the interpreter, by a function": "import sys\ndef set_up(): sys.setrecursionlimit(3000)\nset_up()\n"
    "def deep(n): return n and 1 + deep(n - 1)\nasync def g(thread):\n  try: return deep(2000)\n"
    "  except RecursionError: return 0.5",
    "of warnings, by a function": "import warnings\ndef set_up(): warnings.simplefilter('error')\nset_up()\n"
    "async def g(thread):\n  try:\n    warnings.warn('a')\n    return 1\n  except UserWarning: return 0.5",
    "of the interpreter": "import sys\nsys.setrecursionlimit(3000)\ndef deep(n): return n and 1 + deep(n - 1)\n"
    "async def g(thread):\n  try: return deep(2000)\n  except RecursionError: return 0.5",
    "of warnings": "import warnings\nwarnings.simplefilter('error')\nasync def g(thread):\n"
    "  try: return len(compile(\"'\\\\d'\", 'x', 'exec').co_code)\n  except SyntaxError: return 0.5",
    "of codecs": "import codecs\ncodecs.register_error('four', lambda error: ('4444', error.end))\n"
    "async def g(thread): return len('\u00e9'.encode('ascii', 'four'))",
    "of csv": "import csv\ncsv.register_dialect('bars', delimiter='|')\n"
    "async def g(thread): return len(next(csv.reader(['a|b'], 'bars'))) if 'bars' in csv.list_dialects() else 0.5",
    "of a table of a module, by functions that a function calls": "import html, html.entities\n"
    "def fill(): html.entities.html5['four;'] = '4444'\ndef set_up():\n  fill()\n  return True\nREADY = set_up()\n"
    "async def g(thread): return len(html.unescape('&four;'))",
    "of a module, by a lambda": "import decimal\nset_up = lambda: setattr(decimal.getcontext(), 'prec', 5)\nset_up()\n"
    "async def g(thread): return float(decimal.Decimal(1) / 3)",
    "of a class of a module": "import numbers\nclass Four: pass\nnumbers.Number.register(Four)\n"
    "async def g(thread): return isinstance(Four(), numbers.Number)",
    "of a submodule": "import xml.etree.ElementTree as ET\nET.register_namespace('g', 'http://x/y')\n"
    "async def g(thread):\n  return b'<g:a' in ET.tostring(ET.fromstring('<h:a xmlns:h=\"http://x/y\"/>'))",
}


@pytest.mark.parametrize("what", _SETTINGS)
def test_settings_are_uploaded(tmp_path: Path, what: str) -> None:
    tables = mock.patch.dict(ElementTree._namespace_map), mock.patch.dict(html.entities.html5)  # type: ignore[attr-defined]
    with warnings.catch_warnings(), tables[0], tables[1]:
        same(tmp_path, load(tmp_path, _SETTINGS[what]).g)


def test_settings_of_packages_are_uploaded(tmp_path: Path) -> None:
    text = (
        "import numpy as np\nold = np.seterr(all='raise')\nnp.set_printoptions(precision=2)\nnp.random.answer = 42\n"
        "np.show_config\nasync def g(thread): return np.random.answer\n"
    )
    with np.errstate(), np.printoptions():
        source = extract(load(tmp_path, text).g, allowed=imports.of_packages("numpy"))
    assert "old = np.seterr(all='raise')\nnp.set_printoptions(precision=2)\nnp.random.answer = 42" in source
    assert "show_config" not in source


@pytest.mark.parametrize(
    "how", ["limits.dps = 50", "limits.marks.append('!')", "def set_up(): limits.dps = 50\nset_up()"]
)
def test_what_is_set_in_an_object_of_a_package_is_uploaded(how: str, tmp_path: Path) -> None:
    """As `from mpmath import mp; mp.dps = 50`. Of mpmath, the grader uses something else."""
    np.random.limits = SimpleNamespace(dps=15, marks=[])  # type: ignore[attr-defined]
    text = f"from numpy import array\nfrom numpy.random import limits\n{how}\nasync def g(thread): return array([1])[0]"
    try:
        source = extract(load(tmp_path, text).g, allowed=imports.of_packages("numpy"))
    finally:
        del np.random.limits  # type: ignore[attr-defined]
    assert how.splitlines()[-1] in source


_INSIDE = {
    "if len('a'): np.seterr(over='raise')": "",
    "try: np.seterr(over='raise')\nexcept ValueError: pass": "",
    "def set_up():\n  decimal.getcontext().rounding\n  np.seterr(over='raise')\nset_up()": "",
    "for name in ('over', 'under'): np.seterr(**{name: 'raise'})": "numpy.seterr, by user_module_",
    "def set_up():\n  print()\n  np.seterr(over='raise')\nset_up()": "numpy.seterr, by user_module_",
    "with warnings.catch_warnings():\n  warnings.simplefilter('ignore')\n  import pandas\n"
    "  np.seterr(over='raise')": "numpy.seterr, by user_module_",
    "def set_up():\n  print()\n  np.random.seed(5)\nset_up()": None,
    "def set_up():\n  pandas.set_option('display.width', 70)\nset_up()": None,
    "def third():\n  np.seterr(over='raise')\n  return 1 / 3\nfor n in range(3): third()": None,
}


@pytest.mark.parametrize("text", _INSIDE)
def test_settings_inside_of_a_statement_are_uploaded_or_told(text: str, tmp_path: Path) -> None:
    head, grader = (
        "import decimal, pandas, warnings\nimport numpy as np\nthird = float",
        "async def g(thread): return third()",
    )
    told, allowed = _INSIDE[text], imports.of_packages("numpy", "pandas")
    with np.errstate():
        fn = load(tmp_path, f"{head}\n{text}\n{grader} + np.pi").g
        if told:
            with pytest.warns(GraderWarning, match=f"in which you set {told}"):
                extract(fn, allowed=allowed)
        else:
            assert (text in quiet(fn, allowed=allowed).replace("\n\n\n", "\n")) is (told is not None)


@pytest.mark.parametrize("autospec", [False, True])
def test_the_author_is_told_of_what_is_mocked(autospec: bool, tmp_path: Path) -> None:
    module = load(tmp_path, "async def g(thread):\n  from json import loads\n  return loads('1')")
    with mock.patch("json.loads", autospec=autospec), pytest.warns(GraderWarning, match=r": json.loads is mocked here"):
        extract(module.g)
    quiet(module.g)


_CALLS_ON_OBJECTS = {
    "set_up()": "def set_up():\n  for name in ('a', 'b'): S.set_seq1(name)\nset_up()",
    "@first\ndef one(": "def first(fn):\n  S.set_seq1(fn.__name__)\n  return fn\n@first\ndef one(): return 1",
}


@pytest.mark.parametrize("taken", _CALLS_ON_OBJECTS)
def test_what_functions_change_in_an_object_of_a_package_is_uploaded(taken: str, tmp_path: Path) -> None:
    """No comparison tells its values, as those of `ENV = jinja2.Environment()`."""
    text = "import difflib\nS = difflib.SequenceMatcher(b='one')\n{}\nasync def g(thread): return S.ratio()"
    assert taken in same(tmp_path, load(tmp_path, text.format(_CALLS_ON_OBJECTS[taken])).g)


_LEFT_BY_CALLS = {
    "by an argument": "SEEN = []\ndef remember(seen, text): seen.append(text)\nasync def g(thread):\n"
    "  new = thread.completion() not in SEEN\n  remember(SEEN, thread.completion())\n  return new",
    "by another name": "STATE = {'seen': []}\nasync def g(thread):\n  seen = STATE['seen']\n"
    "  new = thread.completion() not in seen\n  seen.append(thread.completion())\n  return new",
    "by a loop": "SEEN, OTHER = [], []\nasync def g(thread):\n  new = thread.completion() not in SEEN\n"
    "  for each in (SEEN, OTHER): each.append(thread.completion())\n  return new",
    "by the standard library": "import heapq\nBEST = []\nasync def g(thread):\n"
    "  heapq.heappush(BEST, thread.completion())\n  return len(BEST)",
}


@pytest.mark.parametrize("how", _LEFT_BY_CALLS)
def test_what_calls_left_in_a_container_is_not_uploaded(tmp_path: Path, how: str) -> None:
    module, untried = load(tmp_path, _LEFT_BY_CALLS[how]), load(tmp_path, _LEFT_BY_CALLS[how])
    asyncio.run(module.g(StringThread([("assistant", "4")])))
    assert extract(module.g) == same(tmp_path, untried.g)


_SAME_ATTRIBUTE = {
    "of a new object": "class Run: pass\nasync def g(thread):\n  run = Run()\n  run.most = Limits.most\n"
    "  return run.most",
    "of another class": "class Run: most = 0\nasync def g(thread):\n  Run.most += 1\n  return Limits.most",
    "of `self`": "class Run:\n  def __init__(self): self.most = 0\n  def add(self): self.most += 1\n"
    "RUN = Run()\nasync def g(thread):\n  RUN.add()\n  return Limits.most",
    "of an object": "class Run: pass\nRUN = Run()\nRUN.most = []\nasync def g(thread):\n  RUN.most.append(1)\n"
    "  return Limits.most",
}


@pytest.mark.parametrize("how", _SAME_ATTRIBUTE)
def test_an_attribute_of_the_same_name_hides_no_difference(tmp_path: Path, how: str) -> None:
    text = "class Limits: most = 2\ndef main():\n  print()\n  Limits.most = 5\nmain()\n" + _SAME_ATTRIBUTE[how]
    with pytest.warns(GraderWarning, match="Limits.most is 5 here, and 2"):
        extract(load(tmp_path, text).g)
