"""Tests of the messages for functions that cannot be uploaded: the reason, and what to do."""

import functools
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradebox
from gradebox import StringThread
from gradebox.errors import SourceError
from gradebox.source import extract
from tests.gradebox.source.extracted import load, run, same


class Holder:
    async def method(self, thread: Any) -> float:
        return 1.0

    @staticmethod
    async def static(thread: Any) -> float:
        return 1.0

    @classmethod
    async def for_class(cls, thread: Any) -> float:
        return 1.0

    async def __call__(self, thread: Any) -> float:
        return 1.0


async def module_grader(thread: Any, limit: int = 1) -> float:
    return 1.0


def plain(thread: Any) -> float:
    return 1.0


def grade(sample: dict[str, Any], item: dict[str, Any]) -> float:
    return 1.0


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None) -> float:
    return 1.0


def reward(completions: list[str], **kwargs: Any) -> list[float]:
    return [1.0] * len(completions)


def nothing() -> float:
    return 1.0


async def generator(thread: Any) -> Any:
    yield 1.0


def of_two(text: str, answer: str) -> float:
    return 1.0


of_two.__name__ = "grade"


def nested() -> Callable[..., Any]:
    async def inner(thread: Any) -> float:
        return 1.0

    return inner


def closure(limit: float = 0.5) -> Callable[..., Any]:
    async def inner(thread: Any) -> float:
        return limit

    return inner


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda thread: 1.0, "a lambda cannot be uploaded: write `async def grade"),
        (plain, "plain is a plain `def`: write `async def plain` .nothing else in it needs to change"),
        (grade, r"grade takes the sample and the item, .* client.graders.create.python\(fn=grade, …\)"),
        (
            compute_score,
            "has the parameters data_source, solution_str, ground_truth, extra_info, and a grader takes one, the "
            r"thread: keep it, and write `async def grade\(thread: StringThread\) -> float`, which calls it",
        ),
        (reward, r"has the parameters completions, \*\*kwargs, and a grader takes one"),
        (of_two, r"grade has the parameters text, answer, .*: keep it, and write `async def score\("),
        (nothing, "nothing has no parameter, and a grader takes one, the thread: write"),
        (generator, "generator is a generator, because it uses `yield`"),
        (nested(), "inner is a nested function, defined inside nested, .* move it there"),
        (closure(), "inner is a closure over limit, .* let the decorator use functools.wraps"),
        (Holder.method, "Holder.method is a method, .* write an `async def` at module level that calls it"),
        (Holder().method, "Holder.method is a method"),
        (Holder.static, "Holder.static is a method"),
        (Holder.for_class, "Holder.for_class is a method"),
        (inspect.getattr_static(Holder, "static"), "static is a method"),
        (Holder(), "an object of class Holder cannot be uploaded"),
        (Holder, "Holder is a class: write an `async def`"),
        (functools.partial(module_grader, limit=2), "a functools.partial of module_grader cannot be uploaded"),
        (math.floor, "floor is written in C"),
        (len, "len is written in C"),
        ("async def grade(t): ...", "a grader is a function or its source as a string, and this is str"),
        (None, "this is NoneType"),
    ],
)
def test_what_is_no_function_of_a_module(fn: Any, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        extract(fn)


REFUSED = {
    "third party": (
        "import json, pytest as np\nasync def g(t): return np.mark and json.loads('1')",
        "g needs `import pytest as np` .*line 1.*the package pytest is not there in the sandbox",
    ),
    "three of third parties": (
        "import json, pytest, httpx._api\ndef h(): return httpx._api\n"
        "async def g(t):\n  from rich import box\n  return h() and pytest.mark and box",
        r"package rich is not there .* without=\['rich'\]\)\. The same holds for (httpx, pytest|pytest, httpx)$",
    ),
    "a submodule": ("import httpx._api\nasync def g(t): return httpx._api", "package httpx is not there"),
    "too much of gradebox": (
        "from gradebox import errors\nasync def g(t): return errors.SourceError",
        "gradebox.errors is not there in the sandbox: .* StringThread, Score, NotApplicable, and what .* alone",
    ),
    "another grade": (
        "def grade(a): return 1\nasync def g(t): return grade(t)",
        "something else that is called `grade`.*different name",
    ),
    "the environment": (
        "import os\nLIMIT = float(os.environ.get('LIMIT_NOT_SET', '0.5'))\nasync def g(t): return LIMIT",
        "g uses LIMIT, which .*line 2 takes from this machine.*Write the value into the source",
    ),
    "the data of an environment": (
        "import os\nDATA = os.environ.get('ENVIRONMENT_DATA', '.')\nasync def g(t): return DATA",
        "g uses DATA, which .*line 2 takes from this machine.*Read ENVIRONMENT_DATA in a function",
    ),
    "the command line": (
        "import argparse\nargs = argparse.ArgumentParser().parse_args([])\nasync def g(t): return args.limit",
        "g uses args, which .*line 2 takes from the command line .parse_args.*LIMIT = args.limit",
    ),
    "the name of its module": (
        "def weight(): return 2 if __name__ in ('__main__', 'my_named') else 1\nasync def g(t): return weight()",
        "weight uses `__name__ in .*`, and in the sandbox the module has another name: assign it to a constant",
    ),
    "the name of its module, in itself": (
        "async def g(t): return 2 if __name__ == 'my_named' else 1",
        "g uses `__name__ == 'my_named'`",
    ),
    "the name of its module, where it sets a value": (
        "class Limits: most = 1\nif __name__ == 'my_named' and True: Limits.most = 2\n"
        "async def g(t): return Limits.most",
        "Limits uses `__name__ == 'my_named'`",
    ),
    "a file next to it": (
        "from pathlib import Path\nasync def g(t): return len(Path(__file__).name)",
        "uses __file__, and the sandbox holds no file of yours",
    ),
    "a value without a statement": (
        "globals()['THING'] = object()\nasync def g(t): return THING",
        "g uses THING, which no statement of its module binds, but .* its value .object. .*define it by a statement",
    ),
    "a wrapper outside": (
        "import functools\ndef deco(fn):\n    @functools.wraps(fn)\n    async def w(t): return 2 * await fn(t)\n"
        "    return w\nasync def h(t): return 1\ng = deco(h)",
        "h was wrapped by a call outside of its `def`.* as a decorator, in the line above",
    ),
    "a wrapper without wraps": (
        "def deco(fn):\n    async def w(t): return await fn(t)\n    return w\n@deco\nasync def g(t): return 1",
        "w is a closure over fn, .* functools.wraps",
    ),
    "a helper replaced while the program ran": (
        "def h(): return 1\nasync def g(t): return h()\nglobals()['h'] = lambda: 2",
        "h is not what .* says: .* replaced while the program ran",
    ),
    "a helper that is something else now": (
        "def h(): return 1\nasync def g(t): return h()\nglobals()['h'] = len",
        "h was a definition in .*line 1 and is now builtin_function",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_function_may_not_use(case: str, tmp_path: Path) -> None:
    text, message = REFUSED[case]
    module = load(tmp_path, text + "\n", "my_named")
    with pytest.raises(SourceError, match=message):
        extract(module.g)


def test_the_name_of_a_module_where_it_says_the_same_in_the_sandbox(tmp_path: Path) -> None:
    text = (
        "import logging\nclass Limits: most = 1\nNAMED = __name__ == 'my_named'\nLOG = logging.getLogger(__name__)\n"
        "if __name__ != '__main__': Limits.most = 2\n"
        "async def g(t):\n  if NAMED: return Limits.most\n  LOG.info('other')\n"
    )
    assert "NAMED = True" in same(tmp_path, load(tmp_path, text, "my_named").g)


@pytest.mark.parametrize("returned", ["helper(t)", "1"])
def test_a_module_without_a_name_is_refused(returned: str, tmp_path: Path) -> None:
    path = tmp_path / "nameless.py"
    path.write_text(f"def helper(t): return 1\nasync def g(t): return {returned}\n")
    namespace: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)  # as loaders of plugins do
    said = r"(helper|g) was defined by `%run`, or by `exec`.*without `__name__`.*%run -i"
    with pytest.raises(SourceError, match=said):
        extract(namespace["g"])


def test_the_text_above_a_module_is_uploaded_if_it_is_used(tmp_path: Path) -> None:
    same(tmp_path, load(tmp_path, '"""a, b"""\nasync def g(t): return __doc__.count(t.completion())\n').g, "a", "c")


def test_a_flag_of_an_import_with_a_fallback_is_computed_in_the_sandbox(tmp_path: Path) -> None:
    text = "try:\n    import httpx\n    HAS = True\nexcept ImportError:\n    HAS = False\n"
    module = load(tmp_path, text + "async def g(t):\n    return float(HAS)\n")
    assert run(tmp_path, extract(module.g), ["a"]) == [0.0]


def test_imports_with_a_fallback_and_unused_ones_are_no_error(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        "import pytest\nfrom typing import Any\n"
        "try:\n    import regex_not_there as re\nexcept ImportError:\n    import re\n"
        "def h():\n    try:\n        import numpy_not_there\n    except ImportError:\n        return 1\n"
        "async def g(t) -> 'pytest.Mark': return h() + len(re.findall('a', t.completion()))\n",
    )
    assert "pytest\n" not in same(tmp_path, module.g, "aa")


_ONE = "async def g(t): return 1\n"
_OF_HELPER = "async def g(t):\n    return h()\ndef h():\n    return {}\n"


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (_ONE, "async def g(t): return 2\n", "g is not what .*line 1 says: the text was changed on disk"),
        (_OF_HELPER.format(1), _OF_HELPER.format(2), "h is not what .*line 3 says"),
        (_ONE, "async def g(t:\n", "is not Python any more"),
    ],
)
def test_a_file_that_changed_since_its_import_is_refused(tmp_path: Path, before: str, now: str, said: str) -> None:
    module = load(tmp_path, before)
    Path(str(module.__file__)).write_text(now)
    with pytest.raises(SourceError, match=said):
        extract(module.g)


def test_a_function_that_ran_a_thousand_times_is_still_the_same(tmp_path: Path) -> None:
    module = load(tmp_path, "def h(n):\n    return sum(i * 2 for i in range(n))\nasync def g(t):\n    return h(3)\n")
    for _ in range(1000):
        module.h(3)  # the interpreter specialises its bytecode
    same(tmp_path, module.g)


def _with_a_branch_for_chinese(thread: StringThread) -> list[str]:
    text = thread.completion() or ""
    if thread.metadata.get("language") == "zh":
        from numpy import array  # stands for any package that sandboxes lack

        return list(array(text))
    return text.split()


async def _words(thread: StringThread) -> float:
    return float(len(_with_a_branch_for_chinese(thread)))


def test_a_package_that_is_never_reached_can_be_gone_without() -> None:
    with pytest.raises(SourceError, match=r"go on without it: fn=gradebox\.grader_source\(…, without=\['numpy'\]\)"):
        gradebox.grader_source(_words)
    source = gradebox.grader_source(_words, without=["numpy"])
    assert "from numpy import array" in source
    with pytest.raises(SourceError, match="numpy"):
        gradebox.grader_source(_words, without=["sympy"])
