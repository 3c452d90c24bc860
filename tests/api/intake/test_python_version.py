"""Tests of the warnings about another version of Python."""

import sys

import pytest

from api.intake.python_version import of_client, warn
from gradebox.client import Client
from gradebox.schemas import Check, CheckName, Report


@pytest.mark.parametrize(
    ("source", "client", "here", "said"),
    [
        ("return float(sum(parts) >= 1)", "3.13", "3.11", ["3.13, and the sandbox has 3.11: from 3.12 on, `sum`"]),
        ("return float(sum(parts) >= 1)", "3.11", "3.12", ["3.11, and the sandbox has 3.12: from 3.12 on, `sum`"]),
        ("return float(sum(parts) >= 1)", "3.12", "3.13", []),
        ("return float(sum(parts) >= 1)", "3.9", "3.11", []),
        ("isinstance(node, ast.Num)", "3.11", "3.14", ["3.11, and the sandbox has 3.14: from 3.14 on, `ast` has no"]),
        ("def visit_Str(self, node): ...", "3.14", "3.13", ["calls no `visit_Num`"]),
        ("get_event_loop().run_until_complete(ask())", "3.11", "3.14", ["`asyncio.get_event_loop` makes no loop"]),
        ("get_event_loop(); ast.Num", "3.11", "3.13", []),
        ("ast.Number; get_event_loop_policy(); sum(parts)", "3.13", "3.14", []),
        ("exec(code, {})", "3.12", "3.13", ["runs may fail in one version alone"]),
        ("subprocess.run([sys.executable, path])", "3.12", "3.11", ["Serve with Python 3.12"]),
        ("exec(code); return sum(passed)", "3.12", "3.11", ["Serve with Python 3.12", "`math.fsum`"]),
        ("re.compile(pattern); model.eval(); checksum(text); np.sum(scores)", "3.13", "3.11", []),
        ("exec(code); return sum(passed)", "3.11", "3.11", []),
        ("exec(code); return sum(passed)", "", "3.11", []),
    ],
)
def test_a_source_that_may_score_differently_is_warned_of(source: str, client: str, here: str, said: list[str]) -> None:
    found = warn(Report(valid=True, checks=[], warnings=["earlier"]), source, client, here).warnings
    assert found[0] == "earlier"
    assert len(found) == 1 + len(said)
    assert all(part in warning for part, warning in zip(said, found[1:], strict=True))


@pytest.mark.parametrize(
    ("name", "message", "client", "warned"),
    [
        ("syntax", "SyntaxError: invalid syntax", "3.14", 1),
        ("syntax", "SyntaxError: invalid syntax", "3.11", 0),
        ("signature", "takes no parameter", "3.14", 0),
        ("test_run", "(exception): AttributeError: module 'itertools' has no attribute 'batched'", "3.14", 1),
        ("test_run", "(exception): ModuleNotFoundError: No module named 'string.templatelib'", "3.14", 1),
        ("test_run", "(exception): ZeroDivisionError: division by zero", "3.14", 0),
    ],
)
def test_a_source_that_fails_is_told_of_the_other_version(
    name: CheckName, message: str, client: str, warned: int
) -> None:
    failed = Check(name=name, passed=False, message=message, duration_ms=1.0)
    found = warn(Report(valid=False, checks=[failed], warnings=[]), "type X = int", client, "3.11").warnings
    assert len(found) == warned
    assert all("you have Python 3.14, and the sandbox has 3.11: syntax, modules" in each for each in found)


@pytest.mark.parametrize(
    ("user_agent", "version"),
    [
        ("gradebox-python Python/3.13", "3.13"),
        ("Python/3.12 aiohttp/3.14.5", "3.12"),
        ("python-httpx/0.28.1", ""),
        ("Python/2.7", ""),
        ("Python/3.1234", ""),
        ("", ""),
    ],
)
def test_a_client_may_name_its_version(user_agent: str, version: str) -> None:
    assert of_client(user_agent) == version


def test_the_client_names_its_version() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    with Client("http://127.0.0.1:1", "key") as client:
        headers = client._transport._connections.http.headers
    assert of_client(headers["User-Agent"]) == version
