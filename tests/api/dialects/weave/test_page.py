"""Tests of the examples and limits in docs/weave.md. `make clients` makes the scorer with weave."""

import ast
import re
from pathlib import Path

import pytest

from api.dialects.weave import route
from tests.gradebox.conftest import Service

PAGE = Path("docs/weave.md").read_text()


@pytest.mark.service
def test_the_mapping_that_it_shows(service: Service, project: str) -> None:
    scorer, mapping = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    with service.client(project=project) as client:
        client.graders.create.function(key="has-answer", fn="async def grade(thread):\n    return 1.0\n")
        exec(mapping, {"client": client})
        mapped = client.graders.get("has-answer").weave
    assert mapped is not None and (mapped.completion, mapped.prompt) == ("output.answer", "inputs.question")
    assert f"--completion {mapped.completion} --prompt {mapped.prompt}" in PAGE
    ast.parse(scorer)


def test_it_says_the_limits() -> None:
    assert f"more than {route.BODY_BYTES / (1 << 20):g} MiB" in PAGE
    assert f"no score within {route.ANSWER_S - route.LAST_S:g} s" in PAGE
