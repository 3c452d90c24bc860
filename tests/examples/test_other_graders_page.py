"""Tests of the graders in docs/other-graders.md. As for an upload, each is a function in a separate file."""

import importlib.util
import re
from pathlib import Path

import pytest

from gradebox.source import extract
from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool

PAGE = (Path(__file__).parents[2] / "docs" / "other-graders.md").read_text(encoding="utf-8")
BLOCKS = {
    section.split("\n", 1)[0]: re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    for section in PAGE.split("\n## ")[1:]
}
RIGHT = (
    b'{"prompt": "2+2?", "completion": "4", "metadata": {"answer": "4", "expected": "4", "target": "4"}}',
    b'{"completion": "5", "metadata": {"answer": "4", "expected": "4", "target": "4"}}',
)
SCORES = {"promptfoo": (1.0, 0.2), "LangSmith": (1.0, 0.0), "Braintrust": (1.0, 0.0), "inspect_ai": (1.0, 0.0)}
REASONS = dict(zip(SCORES, ("looked for the answer", "wanted 4", "equality", "looked for 4"), strict=True))


@pytest.mark.sandbox
@pytest.mark.parametrize("name", SCORES)
def test_a_grader_from_elsewhere_is_valid_and_scores(name: str, pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(BLOCKS[name])
    spec = importlib.util.spec_from_file_location(f"mine_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    report = pool.prove(GraderSource(extract(module.grade)), RIGHT)
    assert report.valid, report
    assert tuple(outcome.score for outcome in report.outcomes) == SCORES[name]
    assert {outcome.reason for outcome in report.outcomes} == {REASONS[name]}


def test_every_section_is_tried() -> None:
    assert BLOCKS.keys() == SCORES.keys()
