"""Warns of sources that may fail or score differently than with the client, which has another version of Python."""

import re

from gradebox.schemas import Report
from sandbox.environments import PYTHON

_NAMED = re.compile(r"\bPython/(3\.[0-9]{1,3})\b")
_RUNS = re.compile(r"(?<![.\w])(?:exec|eval|compile)\(|subprocess|runpy")
_HERE = "you have Python {client}, and the sandbox has {here}: "
_CHANGES = (  # with the version from which on a source that has it does something else
    (
        (3, 12),
        re.compile(r"(?<![.\w])sum\("),
        "from 3.12 on, `sum` adds floats with less rounding. sum([0.7, 0.2, 0.1]) is 1.0, and 0.9999999999999999 "
        "before. `math.fsum` is the same in each version",
    ),
    (
        (3, 14),
        re.compile(r"\b(?:ast\.|visit_)(?:Num|Str|Bytes|NameConstant|Ellipsis)\b"),
        "from 3.14 on, `ast` has no `Num`, `Str`, `Bytes`, `NameConstant` and `Ellipsis`, and calls no `visit_Num`. A "
        "grader that catches the error goes on. `ast.Constant` is the same in each version",
    ),
    (
        (3, 14),
        re.compile(r"\bget_event_loop\("),
        "from 3.14 on, `asyncio.get_event_loop` makes no loop: where none runs, it raises RuntimeError. A grader that "
        "catches the error goes on. `asyncio.run` is the same in each version",
    ),
)
_PROGRAMS = (
    "programs and expressions that the grader runs may fail in one version alone, also those of right completions. "
    "Serve with Python {client}, or try the grader on such completions (`threads=`, `--threads`)"
)
_FAILED = (
    "syntax, modules and the time at which annotations are evaluated differ by version, which may be why this check "
    "failed. Serve with Python {client}, or write what both versions run"
)
_LOADING = ("syntax", "execution")  # the checks that a source of another version fails
_LACKS = re.compile(r"\b(?:Attribute|Import|ModuleNotFound)Error: ")  # in the test run, of what a version does not have


def of_client(user_agent: str) -> str:
    """The version of Python that a client names in its `User-Agent`, such as `3.13`; empty if it names none."""
    found = _NAMED.search(user_agent)
    return found[1] if found else ""


def warn(report: Report, text: str, client: str, here: str = PYTHON) -> Report:
    """Adds the warnings to the report on a source. `client` is such as `3.13`; empty if it is unknown."""
    if client in ("", here):
        return report
    found = [_PROGRAMS] if _RUNS.search(text) else []
    ends = sorted((_numbers(client), _numbers(here)))
    found += [told for since, changed, told in _CHANGES if ends[0] < since <= ends[1] and changed.search(text)]
    failed = report.failed
    if failed is not None and (failed.name in _LOADING or _LACKS.search(failed.message)):
        found.append(_FAILED)
    warnings = [(_HERE + each).format(client=client, here=here) for each in found]
    return report.model_copy(update={"warnings": [*report.warnings, *warnings]})


def _numbers(python: str) -> tuple[int, ...]:
    return tuple(map(int, python.split(".")))
