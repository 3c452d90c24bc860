from pathlib import Path

import pytest

from validators import structure, syntax
from validators.candidate import Candidate, CheckFailed

GRADE = "async def grade(thread): return 1.0"


def _parsed(text: str) -> Candidate:
    candidate = Candidate(text.encode())
    syntax.check(candidate)
    return candidate


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GRADE, 1),
        (f"import json\n\n@staticmethod\n{GRADE}", 4),
        (f"if True:\n    {GRADE}", 2),
        (f"if False:\n    pass\nelse:\n    {GRADE}", 4),
        (f"try:\n    import numpy\nexcept ImportError:\n    {GRADE}", 4),
        (f"try:\n    pass\nfinally:\n    {GRADE}", 4),
        (f"match 1:\n    case 1:\n        {GRADE}", 3),
        (f"def grade(thread): pass\n{GRADE}", 2),
        (f"if True:\n    {GRADE}\nelse:\n    {GRADE}", 4),
    ],
)
def test_the_last_definition_at_the_top_level_counts(text: str, line: int) -> None:
    candidate = _parsed(text)
    assert structure.check(candidate) == f"has `async def grade` on line {line}"
    assert (candidate.definition.name, candidate.definition.lineno) == ("grade", line)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "there is no `async def grade`. Write", 0),
        ("def grade(thread): return 1.0", "`grade` is a plain `def`. Make it `async def grade", 1),
        (f"{GRADE}\ndef grade(thread): return 1.0", "`grade` is a plain `def`", 2),
        ("def grade(sample, item): return 1.0", "`grade` takes the sample and the item, as OpenAI's graders do", 1),
        ("def grade(output, context): return 1.0", "one positional parameter, the thread, and has 2 parameters", 1),
        ("async def get_assert(output, context): return 1.0", "`get_assert` must take exactly one positional", 0),
        ("def reward(completions, **kwargs): pass", "`reward` takes a list of completions, as TRL's reward", 0),
        ("async def reward(prompts, completions, **rest): pass", "The grader's `as_trl_reward()` is the function", 0),
        ("def grade(prompts, completions, answer): pass", "from `thread.metadata` the columns", 1),
        (f"{GRADE}\nclass grade: pass", "`grade` is a class", 2),
        (f"def f():\n    {GRADE}", "`grade` on line 2 is inside a function or a class", 0),
        ("async def f(t): pass\nasync def score(t): return 1.0", "but `async def score`: call it `grade`", 0),
    ],
)
def test_a_source_without_grade(text: str, message: str, line: int) -> None:
    with pytest.raises(CheckFailed) as raised:
        structure.check(_parsed(text))
    assert message in raised.value.message
    assert raised.value.line == line


def test_files_that_a_package_looks_for_are_warned_of() -> None:
    candidate = _parsed(f"import tiktoken\nX = tiktoken.get_encoding('o200k_base')\n{GRADE}")
    structure.check(candidate)
    assert any("`tiktoken.get_encoding` downloads files" in warning for warning in candidate.warnings)


def test_a_generator_without_a_seed_is_warned_of() -> None:
    candidate = _parsed(f"import random\nR = random.Random()\n{GRADE}")
    structure.check(candidate)
    assert any("`Random()` has no seed" in warning for warning in candidate.warnings)


def test_modules_of_the_author_are_searched_too() -> None:
    text = f"add_modules({{'a/b.py': 'import os, sympy\\nx = os.environ[\"KEY\"]'}})\nfrom a import b\n{GRADE}"
    candidate = Candidate(text.encode())
    syntax.check(candidate)
    structure.check(candidate)
    missing, variable = candidate.warnings
    assert missing.startswith("a/b.py, line 1: `sympy` cannot be imported in the sandbox")
    assert variable.startswith("a/b.py, line 2: the sandbox has no environment variable 'KEY'")


def test_packages_among_the_data_of_an_environment_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "langdetect").mkdir()
    (tmp_path / "langdetect/__init__.py").touch()
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/helper.py").touch()
    monkeypatch.setenv("ENVIRONMENT_DATA", str(tmp_path))
    text = f"import os, sys\n{{}}(0, os.environ['ENVIRONMENT_DATA'])\nimport langdetect, sympy, helper\n{GRADE}"
    for added, missing in (("sys.path.insert", ["sympy"]), ("print", ["sympy", "helper"])):
        candidate = _parsed(text.format(added))
        structure.check(candidate)
        assert [warning.split("`")[1] for warning in candidate.warnings] == missing
