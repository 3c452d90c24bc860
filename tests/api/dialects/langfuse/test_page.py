"""Tests of the examples and limits in docs/langfuse.md."""

import re
from pathlib import Path
from typing import get_args

import pytest

from api.dialects.langfuse import request, route
from api.dialects.langfuse.evaluation import MEMORY_MB, TIMEOUT_S, Code
from gradebox import langfuse
from tests.api.dialects.conftest import LANGFUSE_SECRET
from tests.api.dialects.langfuse.conftest import Evaluate
from tests.gradebox.conftest import Service

PAGE = Path("docs/langfuse.md").read_text()


CHECK, SHOWN = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.service
def test_the_evaluator_that_it_shows(evaluate: Evaluate) -> None:
    words = {"name": "words", "value": 3, "dataType": "NUMERIC"}
    assert evaluate(SHOWN, output="It is Paris.") == {"scores": [words]}
    right = {"name": "right", "value": True, "dataType": "BOOLEAN", "comment": "wanted Paris"}
    experiment = {"itemExpectedOutput": "Paris", "itemMetadata": None}
    parts = [{"type": "text", "text": "It is "}, {"type": "text", "text": "Paris."}, {"type": "image_url"}]
    for output in ("It is Paris.", *({"role": "assistant", "content": each} for each in ("It is Paris.", parts))):
        assert evaluate(SHOWN, output=output, experiment=experiment) == {"scores": [words, right]}
    nothing = {"scores": [{**words, "value": 0}, {**right, "value": False}]}
    for empty in (None, {"role": "assistant", "content": None}):
        assert evaluate(SHOWN, output=empty, experiment=experiment) == nothing
    unknown = {"itemExpectedOutput": None, "itemMetadata": None}
    assert evaluate(SHOWN, output=None, experiment=unknown) == {"scores": [{**words, "value": 0}]}
    odd = {"itemExpectedOutput": {"a": 1}, "itemMetadata": None}
    assert evaluate(SHOWN, output={"a": 1}, experiment=odd)["scores"][1]["value"] is True


@pytest.mark.service
def test_the_check_that_it_shows(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    source = CHECK.replace("http://127.0.0.1:8000", service.url).replace("a-secret-that-you-chose", LANGFUSE_SECRET)
    exec(source, {})
    (wanted,) = re.findall(r"# (\{.*\})$", CHECK, re.MULTILINE)
    assert capsys.readouterr().out.strip() == wanted


def test_it_names_every_code_and_limit() -> None:
    codes = {code for part in get_args(Code) for code in (get_args(part) or (part,))}
    assert {code for code in codes if f"`{code}`" not in PAGE} == set()
    rows = dict(re.findall(r"^\| ([\w ,]+) \| (.*) \|$", PAGE, re.MULTILINE))
    assert rows["time"].startswith(f"{TIMEOUT_S:g} s for `evaluate`; {route.ANSWER_S - route.LAST_S:g} s in all")
    assert rows["memory"] == f"{MEMORY_MB} MiB"
    assert rows["source"] == f"{request.SOURCE_BYTES >> 10} KiB"
    assert rows["the whole request"] == f"{request.BODY_BYTES >> 20} MiB"
    assert rows["scores"] == f"{langfuse.RESULT_BYTES >> 10} KiB"
