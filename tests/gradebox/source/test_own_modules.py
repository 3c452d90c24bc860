"""Tests that what a grader uses of its author's other modules is uploaded with it."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from gradebox.errors import GraderWarning, SourceError
from gradebox.source import extract, imports
from gradebox.thread import StringThread
from tests.gradebox.source.extracted import same

Project = Callable[..., ModuleType]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Writes modules, and files by path. Imports that of the grader: `my_grader` or `my_rewards.main`."""
    folder = tmp_path / "project"
    monkeypatch.syspath_prepend(str(folder))

    def write(paths: dict[str, str] | None = None, **modules: str) -> ModuleType:
        files = {**(paths or {}), **{f"{name}.py": text for name, text in modules.items()}}
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        importlib.invalidate_caches()
        return importlib.import_module("my_grader" if "my_grader.py" in files else "my_rewards.main")

    before = set(sys.modules)
    yield write
    for name in set(sys.modules) - before:
        if name.startswith("my_"):
            del sys.modules[name]


GRADE = "async def g(thread):\n    return {}\n"
COUNT = "def count(text):\n    return len(text)\n"
CONFIGURE = (
    "class Options:\n    pass\nOPTIONS = Options()\ndef configure(limit):\n    OPTIONS.limit = limit\n"
    "def cut(text):\n    return text[:OPTIONS.limit]\n"
)
# Each: the files, of which my_grader.py or my_rewards/main.py has the grader `g`.
UPLOADED = {
    "a function": {
        "my_text.py": "import re\nWORD = re.compile(r'\\w+')\ndef count(text):\n    return len(WORD.findall(text))\n",
        "my_grader.py": "from my_text import count\n" + GRADE.format("count(thread.completion())"),
    },
    "by the module's name": {
        "my_text.py": "def count(text):\n    return len(text)\ndef other():\n    import torch\n",
        "my_grader.py": "import my_text\n" + GRADE.format("my_text.count(thread.completion())"),
    },
    "by another name": {
        "my_text.py": COUNT,
        "my_grader.py": "import my_text as t\nfrom my_text import count as c\n"
        + GRADE.format("t.count(thread.completion()) + c('abc')"),
    },
    "imported in the grader": {
        "my_text.py": COUNT,
        "my_grader.py": "async def g(thread):\n    from my_text import count\n    return count(thread.completion())\n",
    },
    "a star": {
        "my_text.py": "__all__ = ['count']\nimport numpy\ndef count(text):\n    return len(text)\n",
        "my_grader.py": "from my_text import *\n" + GRADE.format("count(thread.completion())"),
    },
    "of a module in a package": {
        "my_rewards/__init__.py": "import httpx\nfrom .text import count\n",
        "my_rewards/text.py": "from .low import low\ndef count(text):\n    return len(low(text))\n",
        "my_rewards/low.py": "def low(text):\n    return text.lower()\n",
        "my_grader.py": "from my_rewards.text import count\n" + GRADE.format("count(thread.completion())"),
    },
    "of a package": {
        "my_rewards/__init__.py": "import httpx\nfrom .text import count\n",
        "my_rewards/text.py": COUNT,
        "my_grader.py": "from my_rewards import count\n" + GRADE.format("count(thread.completion())"),
    },
    "a module from a package": {
        "my_rewards/__init__.py": "",
        "my_rewards/text.py": COUNT,
        "my_grader.py": "from my_rewards import text\n" + GRADE.format("text.count(thread.completion())"),
    },
    "by the full name": {
        "my_rewards/__init__.py": "",
        "my_rewards/a/__init__.py": "",
        "my_rewards/a/text.py": COUNT,
        "my_grader.py": "import my_rewards.a.text\n" + GRADE.format("my_rewards.a.text.count(thread.completion())"),
    },
    "a submodule that another module imported": {
        "my_rewards/__init__.py": "",
        "my_rewards/text.py": COUNT,
        "my_other.py": "import my_rewards.text\n",
        "my_grader.py": "import my_other, my_rewards\n" + GRADE.format("my_rewards.text.count(thread.completion())"),
    },
    "a folder without __init__": {
        "my_rewards/text.py": COUNT,
        "my_grader.py": "from my_rewards.text import count\n" + GRADE.format("count(thread.completion())"),
    },
    "relative imports": {
        "my_rewards/__init__.py": "",
        "my_rewards/text.py": "from . import low\ndef count(text):\n    return len(low.low(text))\n",
        "my_rewards/low.py": "def low(text):\n    return text.lower()\n",
        "my_rewards/main.py": "from .text import count\nfrom . import low\nasync def g(thread):\n"
        "    from .low import low as again\n    return count(low.low(again(thread.completion())))\n",
    },
    "a table of decorated functions": {
        "my_rules.py": "import functools\ndef twice(fn):\n    @functools.wraps(fn)\n    def inner(text):\n"
        "        return 2 * fn(text)\n    return inner\n@twice\ndef a(text):\n    return len(text)\n"
        "@twice\ndef b(text):\n    return 1\nRULES = {'a': a, 'b': (b, 0.5)}\nRULES['c'] = twice(len)\n",
        "my_grader.py": "from my_rules import RULES\n"
        + GRADE.format("RULES['a'](thread.completion()) + RULES['b'][0]('') + RULES['c']('abc')"),
    },
    "a class and its base in a third module": {
        "my_base.py": "class Base:\n    weight = 2\n    def score(self, text):\n"
        "        return self.weight * self.of(text)\n",
        "my_rules.py": "from my_base import Base\nclass Words(Base):\n    def of(self, text):\n"
        "        return len(text.split())\n",
        "my_grader.py": "from my_rules import Words\n" + GRADE.format("Words().score(thread.completion())"),
    },
    "a dataclass": {
        "my_rules.py": "from __future__ import annotations\nfrom dataclasses import dataclass, field\n@dataclass\n"
        "class Rule:\n    word: str\n    seen: list[str] = field(default_factory=list)\n"
        "    def score(self, text: str) -> float:\n        return text.count(self.word)\n",
        "my_grader.py": "from my_rules import Rule\nRULES = [Rule('a'), Rule('b')]\n"
        + GRADE.format("sum(rule.score(thread.completion()) for rule in RULES)"),
    },
    "both modules name a function the same": {
        "my_text.py": "def score(text):\n    return len(text)\n",
        "my_rules.py": "import my_text\ndef score(text):\n    return 10 * my_text.score(text)\n",
        "my_grader.py": "import my_rules\ndef score(text):\n    return 1 + my_rules.score(text)\n"
        + GRADE.format("score(thread.completion())"),
    },
    "a constant that the module computes": {
        "my_text.py": "WEIGHTS = {name: n for n, name in enumerate('abc')}\ndef weigh(text):\n"
        "    return sum(WEIGHTS.get(each, 0) for each in text)\n",
        "my_grader.py": "import my_text\n" + GRADE.format("my_text.weigh(thread.completion()) + len(my_text.WEIGHTS)"),
    },
    "a constant that was set from outside": {
        "my_text.py": "LIMIT = 1\ndef cut(text):\n    return text[:LIMIT]\n",
        "my_grader.py": "import my_text\nmy_text.LIMIT = 2\n" + GRADE.format("len(my_text.cut(thread.completion()))"),
    },
    "a table that both fill": {
        "my_text.py": "TABLE = []\ndef total():\n    return sum(TABLE)\n",
        "my_grader.py": "from my_text import TABLE, total\nTABLE.append(3)\nTABLE.append(4)\n"
        + GRADE.format("total()"),
    },
    "a cache that calls filled": {
        "my_text.py": "SEEN = {}\ndef count(text):\n    return SEEN.setdefault(text, len(text))\n",
        "my_grader.py": "import my_text\nmy_text.count('before')\n"
        + GRADE.format("my_text.count(thread.completion())"),
    },
    "a registry in a module of its own": {
        "my_registry.py": "RULES = {}\ndef rule(fn):\n    RULES[fn.__name__] = fn\n    return fn\n",
        "my_words.py": "from my_registry import rule\nWEIGHT = 3\n@rule\ndef words(text):\n"
        "    return WEIGHT * len(text.split())\n",
        "my_letters.py": "from my_registry import rule\n@rule\ndef letters(text):\n    return len(text)\n",
        "my_grader.py": "import my_words\nimport my_letters\nfrom my_registry import RULES\n"
        + GRADE.format("sum(each(thread.completion()) for each in RULES.values())"),
    },
    "a registry of classes by their base": {
        "my_registry.py": "class Rule:\n    pass\ndef rules():\n"
        "    return [each() for each in Rule.__subclasses__()]\n",
        "my_words.py": "from my_registry import Rule\nclass Words(Rule):\n    def score(self, text):\n"
        "        return len(text.split())\n",
        "my_grader.py": "import my_words\nfrom my_registry import rules\n"
        + GRADE.format("sum(each.score(thread.completion()) for each in rules())"),
    },
    "a registry without a function that was deleted": {
        "my_rules.py": "RULES = {}\ndef rule(fn):\n    RULES[fn.__name__] = fn\n    return fn\n"
        "@rule\ndef length(text):\n    return len(text)\n@rule\ndef old(text):\n    return 7\n",
        "my_grader.py": "from my_rules import RULES\ndel RULES['old']\n"
        + GRADE.format("sum(rule(thread.completion()) for rule in RULES.values())"),
    },
    "a registry of functions beside the grader": {
        "my_registry.py": "RULES = {}\ndef rule(fn):\n    RULES[fn.__name__] = fn\n    return fn\n"
        "def total(text):\n    return sum(each(text) for name, each in RULES.items() if name != 'g')\n",
        "my_grader.py": "from my_registry import rule, total\nWEIGHT = 3\n@rule\ndef words(text):\n"
        "    return WEIGHT * len(text.split())\n@rule\ndef letters(text):\n    return len(text)\n@rule\n"
        + GRADE.format("total(thread.completion())"),
    },
    "a registry that has what a decorator made": {
        "my_registry.py": "import functools\nRULES = []\ndef rule(fn):\n    RULES.append(fn)\n"
        "    @functools.wraps(fn)\n    def inner(text):\n        return fn(text)\n    return inner\n"
        "def total(text):\n    return sum(each(text) for each in RULES)\n",
        "my_words.py": "from my_registry import rule\n@rule\ndef words(text):\n    return len(text.split())\n",
        "my_grader.py": "import my_words\nfrom my_registry import rule, total\n@rule\ndef letters(text):\n"
        "    return len(text)\n" + GRADE.format("total(thread.completion())"),
    },
    "a registry of classes by their base, beside the grader": {
        "my_registry.py": "class Rule:\n    pass\ndef total(text):\n"
        "    return sum(each().score(text) for each in Rule.__subclasses__())\n",
        "my_grader.py": "from my_registry import Rule, total\nclass Words(Rule):\n    def score(self, text):\n"
        "        return len(text.split())\n" + GRADE.format("total(thread.completion())"),
    },
    "a module of the package that has the grader": {
        "my_rewards/__init__.py": "from .main import g\n",
        "my_rewards/text.py": "from . import low\ndef count(text):\n    return len(low.low(text))\n",
        "my_rewards/low.py": "def low(text):\n    return text.lower()\n",
        "my_rewards/main.py": "import my_rewards.low\nfrom .text import count\n"
        + GRADE.format("count(my_rewards.low.low(thread.completion()))"),
    },
    "a package that imports when it is asked": {
        "my_rewards/__init__.py": "import importlib\ndef __getattr__(name):\n    if name == 'count':\n"
        "        return importlib.import_module('.text', __name__).count\n    raise ImportError(name)\n",
        "my_rewards/text.py": COUNT,
        "my_grader.py": "import my_rewards\nfrom my_rewards import count\nasync def g(thread):\n    try:\n"
        "        my_rewards.other\n    except ImportError:\n"
        "        return my_rewards.count('abc') + count(thread.completion())\n",
    },
    "a package that imports a missing package when it is asked": {
        "my_rewards/__init__.py": "def __getattr__(name):\n    import httpx\n    return getattr(httpx, name)\n",
        "my_rewards/text.py": COUNT,
        "my_grader.py": "from my_rewards.text import count\n" + GRADE.format("count(thread.completion())"),
    },
    "a module with features that Python always has": {
        "my_text.py": "from __future__ import absolute_import, division\ndef count(text):\n    return len(text) / 2\n",
        "my_grader.py": "from my_text import count\n" + GRADE.format("count(thread.completion())"),
    },
    "a registry of classes in a package that nothing else imports": {
        "my_base.py": "class Rule:\n    @classmethod\n    def total(cls, text):\n"
        "        return sum(each().score(text) for each in cls.__subclasses__())\n",
        "my_rules/__init__.py": "from .words import Words\n",
        "my_rules/words.py": "from my_base import Rule\nclass Words(Rule):\n    def score(self, text):\n"
        "        return len(text.split())\n",
        "my_grader.py": "import my_rules\nfrom my_base import Rule\n" + GRADE.format("Rule.total(thread.completion())"),
    },
    "variables with the name of a module": {
        "my_text.py": "import httpx\ndef count(text):\n    return len(text)\ndef get():\n    return httpx\n",
        "my_grader.py": "import my_text\ndef double(my_text, *rest, n=my_text.count('ab')):\n"
        "    my_text += ''.join(rest)\n    return my_text * n\nasync def g(thread):\n"
        "    twice = (lambda my_text: double(my_text))(thread.completion())\n"
        "    return my_text.count(twice)\n",
    },
    "a function with the name that the grader gets": {
        "my_rules.py": "def grade(text):\n    return len(text)\n",
        "my_grader.py": "import my_rules\nWEIGHTS = {name: n for n, name in enumerate('ab')}\n"
        + GRADE.format("my_rules.grade(thread.completion()) + len(WEIGHTS)"),
    },
    "imported by a call": {
        "my_text.py": "import httpx\ndef count(text):\n    return len(text)\ndef get():\n    return httpx.get('x')\n",
        "my_grader.py": "import importlib\ntext = importlib.import_module('my_text')\n"
        + GRADE.format("text.count(thread.completion())"),
    },
    "imported by a call in the grader": {
        "my_text.py": COUNT,
        "my_grader.py": "from importlib import import_module\nasync def g(thread):\n    try:\n"
        "        return import_module('my_text').count(thread.completion())\n    except ImportError: return 7\n",
    },
    "a counter that the module advanced": {
        "my_ids.py": "N = 0\ndef count():\n    global N\n    N += 1\n    return N\nFIRST = count()\n",
        "my_grader.py": "from my_ids import count\nIDS = [count(), count()]\n" + GRADE.format("count() + len(IDS)"),
    },
    "what a call of an imported function set up": {
        "my_text.py": CONFIGURE,
        "my_grader.py": "from my_text import configure, cut\nconfigure(limit=3)\n"
        + GRADE.format("len(cut(thread.completion()))"),
    },
    "what a module that only sets up others changed": {
        "my_options.py": "class Options:\n    limit = 1\nOPTIONS = Options()\nPATTERNS = {}\nRULES = []\n"
        "def rule(fn):\n    RULES.append(fn)\n",
        "my_setup.py": "import re\nimport my_options\nfrom my_options import OPTIONS, rule\nOPTIONS.limit = 5\n"
        "my_options.PATTERNS['a'] = re.compile('[ab]')\nrule(lambda text: 100)\n",
        "my_grader.py": "import my_setup\nfrom my_options import OPTIONS, PATTERNS, RULES\nasync def g(thread):\n"
        "    text = thread.completion()[:OPTIONS.limit]\n"
        "    return len(PATTERNS['a'].findall(text)) + sum(rule(text) for rule in RULES)\n",
    },
    "what another module registered for a type": {
        "my_score.py": "import functools\n@functools.singledispatch\ndef score(value):\n    return 0\n",
        "my_types.py": "from my_score import score\n@score.register\ndef _(value: str):\n    return len(value)\n"
        "@score.register(int)\ndef _(value):\n    return value\n",
        "my_grader.py": "import my_types\nfrom my_score import score\n"
        + GRADE.format("score(thread.completion()) + score(3)"),
    },
    "what a call set up, beside a value with attributes of any name": {
        "my_text.py": CONFIGURE,
        "my_grader.py": "import my_text\nclass Strict:\n    def __bool__(self):\n        raise ValueError\n"
        "class Any:\n    def __getattr__(self, name):\n        return Same()\nclass Same:\n"
        "    def __eq__(self, other):\n        return Strict()\nANY = Any()\nmy_text.configure(limit=3)\n"
        + GRADE.format("len(my_text.cut(thread.completion()))"),
    },
    "modules that import each other": {
        "my_even.py": "import my_odd\ndef even(n):\n    return n == 0 or my_odd.odd(n - 1)\n",
        "my_odd.py": "import my_even\ndef odd(n):\n    return n != 0 and my_even.even(n - 1)\n",
        "my_grader.py": "from my_even import even\n" + GRADE.format("float(even(len(thread.completion())))"),
    },
    "a module as a value": {
        "my_rules.py": "def score_a(text):\n    return 1\ndef score_b(text):\n    return 2\n",
        "my_grader.py": "import my_rules\n" + GRADE.format("getattr(my_rules, 'score_b')(thread.completion())"),
    },
    "texts with all kinds of quotes": {
        "my_text.py": 'A = """a\'b"c\\\\"""\nB = \'\'\'d"e\'\'\'\ndef both():\n'
        "    return len(A + B) + len(\"\"\"q\"\"\" + '''\\x00\\\\''')\n",
        "my_grader.py": "import my_text\n" + GRADE.format("my_text.both()"),
    },
    "an import for where a package is missing": {
        "my_fast.py": COUNT,
        "my_grader.py": "try:\n    from my_fast import count\nexcept ImportError:\n    count = None\n"
        + GRADE.format("count(thread.completion()) if count else -1"),
    },
    "settings of a package that only other functions use": {
        "my_text.py": "import numpy\nnumpy.random.seed(1)\n"
        "def count(text):\n    return len(text)\ndef get():\n    return numpy\n",
        "my_grader.py": "from my_text import count\n" + GRADE.format("count(thread.completion())"),
    },
    "settings of a module": {
        "my_setup.py": "import decimal\ndecimal.getcontext().prec = 5\ndef third():\n"
        "    return float(decimal.Decimal(1) / 3)\n",
        "my_grader.py": "import my_setup\n" + GRADE.format("my_setup.third()"),
    },
}


@pytest.mark.parametrize("case", UPLOADED)
def test_what_a_grader_uses_of_other_modules_is_uploaded(case: str, project: Project, tmp_path: Path) -> None:
    module = project(UPLOADED[case])
    source = same(tmp_path, module.g, "a b", "abc", "")
    assert "gradebox.modules" in source
    assert "httpx" not in source
    assert "torch" not in source


REFUSED = {
    "a package that is not there": (
        {
            "my_text.py": "import httpx\ndef count(text):\n    return httpx.get(text)\n",
            "my_grader.py": "from my_text import count\n" + GRADE.format("count(thread.completion())"),
        },
        r"count needs `import httpx` \(my_text.py, line 1\), and the package httpx is not there",
    ),
    "a module of a package that needs one that is not there": (
        {
            "my_rewards/__init__.py": "",
            "my_rewards/text.py": "import httpx\ndef count(text):\n    return httpx.get(text)\n",
            "my_rewards/main.py": "from . import text\n" + GRADE.format("text.count(thread.completion())"),
        },
        r"count needs `import httpx` \(text.py, line 1\), and the package httpx is not there",
    ),
    "a library": (
        {
            **{
                f"my_lib/m{n}.py": f"from .m{n + 1} import f{n + 1}\ndef f{n}(text):\n    '{'x' * 270_000}'\n"
                f"    return f{n + 1}(text)\n"
                for n in range(4)
            },
            "my_lib/m4.py": "def f4(text):\n    return 0\n",
            "my_grader.py": "from my_lib.m0 import f0\n" + GRADE.format("f0(thread.completion())"),
        },
        "g and what it uses come to over 1,0.* bytes, and a grader may have 524,288",
    ),
    "the environment": (
        {
            "my_text.py": "import os\nKEY = os.environ.get('MY_KEY', 'x')\ndef count(text):\n    return len(KEY)\n",
            "my_grader.py": "from my_text import count\n" + GRADE.format("count(thread.completion())"),
        },
        "count uses KEY, which my_text.py, line 2 takes from this machine",
    ),
    "the environment, by a constant that two modules pass on": (
        {
            "my_settings.py": "import os\nKEY = os.environ.get('MY_KEY', 'x')\n",
            "my_text.py": "from my_settings import KEY as SECRET\n",
            "my_grader.py": "from my_text import SECRET\n" + GRADE.format("len(SECRET)"),
        },
        "g uses SECRET, which my_settings.py, line 2 takes from this machine",
    ),
    "the module of the grader itself": (
        {
            "my_text.py": "import my_grader\ndef count(text):\n    return my_grader.WEIGHTS['a']\n",
            "my_grader.py": "WEIGHTS = {'a': 1}\nimport my_text\n" + GRADE.format("my_text.count(thread.completion())"),
        },
        "a module that g uses imports my_grader, in which g itself is: move what both use into a module of its own",
    ),
    "too much": (
        {
            "my_text.py": f"WORDS = ['', {'x' * 600_000!r}]\n",
            "my_grader.py": "from my_text import WORDS\n" + GRADE.format("len(WORDS)"),
        },
        "g and what it uses come to .* bytes, and a grader may have 524,288",
    ),
    "a function that another one replaced": (
        {
            "my_text.py": "def count(text):\n    return 1\n",
            "my_grader.py": "import my_text\nmy_text.__dict__['count'] = lambda text: 2\n"
            + GRADE.format("my_text.count(thread.completion())"),
        },
        "was a definition in .* and is now the function <lambda> of .*let it use that by its own name",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_module_may_not_use(case: str, project: Project) -> None:
    files, message = REFUSED[case]
    with pytest.raises(SourceError, match=message):
        extract(project(files).g)


SECRETS = {
    "a constant": "from my_conf import KEY\n" + GRADE.format("len(KEY)"),
    "in a dict": "from my_conf import TABLE\n" + GRADE.format("len(TABLE['key'])"),
    "by a star": "from my_conf import *\n" + GRADE.format("len(KEY)"),
    "by a function": "from my_conf import LOADED\n" + GRADE.format("len(LOADED)"),
    "by a function beside the grader": "import my_conf\nOWN = 'Bearer ' + my_conf.load()\n" + GRADE.format("len(OWN)"),
    "of an object": "import my_conf\nCOPIED = my_conf.OPTIONS.key\n" + GRADE.format("len(COPIED)"),
}


@pytest.mark.parametrize("case", SECRETS)
def test_a_value_from_the_environment_is_not_uploaded(
    case: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "s'3cret")
    conf = (
        "import os\nKEY = os.environ['MY_API_KEY']\nTABLE = {'key': os.getenv('MY_API_KEY')}\n"
        "def load():\n    return os.environ['MY_API_KEY']\nLOADED = load()\nclass Options:\n    pass\n"
        "OPTIONS = Options()\nOPTIONS.key = KEY\n"
    )
    module = project({"my_conf.py": conf, "my_grader.py": SECRETS[case]})
    with pytest.raises(SourceError, match="not uploaded unasked"):
        extract(module.g)


def test_a_module_that_changed_on_disk_is_refused(project: Project, tmp_path: Path) -> None:
    module = project(UPLOADED["a function"])
    (tmp_path / "project/my_text.py").write_text("def count(text):\n    return 2\n")
    with pytest.raises(SourceError, match=r"count is not what my_text.py, line 3 says: the text was changed on disk"):
        extract(module.g)


def test_a_value_that_differs_is_told_with_its_module(project: Project) -> None:
    module = project(
        my_text="class Options:\n    limit = 1\nOPTIONS = Options()\n",
        my_grader="import my_text\n" + GRADE.format("my_text.OPTIONS.limit"),
    )
    sys.modules["my_text"].OPTIONS.limit = 7
    with pytest.warns(GraderWarning, match=r"my_text:OPTIONS.limit is 7 here, and not set in the uploaded copy"):
        extract(module.g)


@pytest.mark.parametrize("where", ["my_other", "my_grader"])
def test_the_author_is_told_what_advanced_a_counter_of_a_module(project: Project, where: str) -> None:
    uses = "import my_ids\nprint(my_ids.count())\n"
    module = project(
        my_ids="N = 0\ndef count():\n    global N\n    N += 1\n    return N\n",
        my_other=uses if where == "my_other" else "",
        my_grader=f"import my_other\n{uses if where == 'my_grader' else ''}from my_ids import count\n"
        + GRADE.format("count()"),
    )
    with pytest.warns(GraderWarning, match=f"my_ids:N is 1 here, and 0 in the uploaded copy, perhaps by {where}.py"):
        extract(module.g)


def test_the_package_that_has_the_grader_holds_its_other_modules(project: Project, tmp_path: Path) -> None:
    project(
        {
            "my_rewards/__init__.py": "LIMIT = 3\nfrom .text import count\n"
            + GRADE.format("count(thread.completion())"),
            "my_rewards/text.py": "from . import LIMIT\ndef count(text):\n    return min(LIMIT, len(text))\n",
            "my_grader.py": "import my_rewards\n",
        }
    )
    same(tmp_path, sys.modules["my_rewards"].g)


def test_the_copy_is_compared_without_modules_that_are_not_uploaded(project: Project) -> None:
    module = project(
        my_fast="import httpx\ndef count(text):\n    return 2 * len(text)\ndef get(): return httpx\ncount.by = httpx\n",
        my_slow=COUNT,
        my_grader="try:\n    from my_fast import count\nexcept ImportError:\n    from my_slow import count\n"
        + GRADE.format("count(thread.completion())"),
    )
    with pytest.warns(GraderWarning, match=r"count is function my_fast.count here, and function my_slow.count in the"):
        extract(module.g)


def test_a_module_in_a_branch_that_did_not_run_is_not_imported(project: Project, tmp_path: Path) -> None:
    module = project(
        my_training="raise SystemError\n",
        my_text="TRAINS = False\nif TRAINS:\n    from my_training import count\nelse:\n"
        "    def count(text):\n        return len(text)\n",
        my_grader="import typing as t\nif t.TYPE_CHECKING:\n    import my_training\n"
        "from my_text import count\nasync def g(thread: 'my_training.Thread'):\n"
        "    return count(thread.completion())\n",
    )
    assert "raise" not in same(tmp_path, module.g)
    assert "my_training" not in sys.modules


def test_what_a_grader_changes_is_told_apart_by_the_module(project: Project) -> None:
    module = project(
        my_memory="STATE = {}\ndef note(text):\n    STATE[text] = 1\n    return len(STATE)\n",
        my_rules="class Rule:\n    pass\nSTATE = {'a': Rule()}\ndef count():\n    return len(STATE)\n",
        my_grader="from my_memory import note\nfrom my_rules import count\n"
        + GRADE.format("note(thread.completion()) + count()"),
    )
    rules = sys.modules["my_rules"]
    rules.STATE["b"] = rules.Rule()
    with pytest.warns(GraderWarning, match=r"my_rules:STATE is dict of 2 here, and dict of 1 in the uploaded copy"):
        extract(module.g)


def test_a_constant_may_have_the_name_of_what_another_module_changes(project: Project, tmp_path: Path) -> None:
    module = project(
        my_memory="STATE = {}\ndef note(text):\n    STATE[text] = 1\n    return len(text)\n",
        my_grader="from my_memory import note\nSTATE = {}\n" + GRADE.format("note(thread.completion()) + STATE['a']"),
    )
    vars(module)["STATE"]["a"] = 5
    assert "STATE = {'a': 5}" in same(tmp_path, module.g)


def test_what_calls_of_the_grader_changed_is_no_difference(project: Project, tmp_path: Path) -> None:
    module = project(
        my_memory="SEEN = {}\nclass Text:\n    pass\ndef note(text):\n    SEEN[text] = Text()\n    return len(text)\n",
        my_count="CALLS = 0\n",
        my_grader="import my_count\nfrom my_memory import SEEN as KEPT, note\nasync def g(thread):\n"
        "    my_count.CALLS += 1\n    return note(thread.completion()) + min(len(KEPT), 1)\n",
    )
    with pytest.raises(StopIteration):
        module.g(StringThread([("assistant", "before")])).send(None)
    same(tmp_path, module.g)


def test_a_module_for_annotations_alone_may_need_a_missing_package(project: Project, tmp_path: Path) -> None:
    module = project(
        my_types="import httpx\nclass Thread(httpx.Client):\n    pass\n",
        my_grader="from __future__ import annotations\nfrom my_types import Thread\n"
        "async def g(thread: Thread) -> float:\n    return len(thread.completion())\n",
    )
    assert "httpx" not in same(tmp_path, module.g)


@pytest.mark.parametrize(
    ("setting", "call"), [("{}", ""), ("def set_up(): {}\nset_up()", ""), ("def set_up(): {}", "my_setup.set_up()\n")]
)
def test_a_module_that_only_sets_up_others_is_uploaded(
    setting: str, call: str, project: Project, tmp_path: Path
) -> None:
    setting = setting.format("decimal.getcontext().prec = 5")
    module = project(
        my_setup=f"import sys, decimal\n{setting}\n",
        my_grader=f"import decimal\nimport my_setup\n{call}" + GRADE.format("float(decimal.Decimal(1) / 3)"),
    )
    try:
        assert "decimal.getcontext().prec = 5" in same(tmp_path, module.g)
    finally:
        sys.modules["decimal"].setcontext(sys.modules["decimal"].Context())


def test_settings_of_a_package_are_uploaded_if_the_copy_imports_it(project: Project) -> None:
    module = project(
        my_plots="import pandas as pd\npd.set_option('display.width', 70)\n",
        my_norms="import numpy.linalg\ndef norm(values): return numpy.linalg.norm(values)\n",
        my_setup="import numpy as np\nnp.set_printoptions(precision=2)\n",
        my_grader="import numpy as np\nimport my_norms, my_plots, my_setup\nnp.seterr(over='raise')\n"
        + GRADE.format("my_norms.norm([1])"),
    )
    with np.errstate(over="raise"), np.printoptions():
        source = extract(module.g, allowed=imports.of_packages("numpy", "pandas"))
    assert "np.seterr(over='raise')" in source and "np.set_printoptions(precision=2)" in source
    assert "pandas" not in source


def test_a_constant_is_uploaded_without_its_module(project: Project, tmp_path: Path) -> None:
    module = project(
        my_config="import httpx\nLIMIT = 3\nNAMES = ('a', 'b')\n",
        my_grader="from my_config import LIMIT, NAMES\n" + GRADE.format("LIMIT + len(NAMES)"),
    )
    assert same(tmp_path, module.g).startswith("LIMIT = 3\nNAMES = ('a', 'b')\n")


def test_modules_that_have_nothing_of_a_differing_one_are_not_read(project: Project, tmp_path: Path) -> None:
    module = project(
        my_text="LIMIT = 1\n" + CONFIGURE,
        my_other="X = 1\n",
        my_grader="import my_other\nimport my_text\nmy_text.configure(limit=3)\n"
        + GRADE.format("len(my_text.cut(thread.completion()))"),
    )
    (tmp_path / "project/my_other.py").write_text("no Python (")  # it would be refused if it was read
    same(tmp_path, module.g, "a b", "abc", "")
