import ast
import resource

import pytest

from sandbox.limits import MAX_MEMORY_MB
from validators import memory


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    limits = [256 << 20]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limits[0], limits[0]))
    return limits


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import os\ndef reliability_guard(maximum_memory_bytes=None):\n    os.kill = None", 2),
        ("import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))", 2),
        ("from resource import RLIMIT_DATA, setrlimit", 1),
    ],
)
def test_programs_that_usually_get_more_memory_are_warned_of(limit: list[int], source: str, line: int) -> None:
    (warning,) = memory.warnings(ast.parse(source))
    assert warning.startswith(f"line {line}: programs that the grader runs get at most 256 MiB of memory here")
    limit[0] = 2048 << 20
    assert memory.warnings(ast.parse(source)) == []
    limit[0] = resource.RLIM_INFINITY
    assert memory.warnings(ast.parse(source)) == []


def test_the_advice_is_the_most_that_a_grader_can_have() -> None:
    assert memory._USUAL_MB == MAX_MEMORY_MB


def test_other_sources_are_not() -> None:
    assert memory.warnings(ast.parse("import resource\nresource.getrusage(resource.RUSAGE_SELF)")) == []
