"""What docs/langfuse.md shows and says."""

import re
from pathlib import Path
from typing import get_args

import pytest

from api.dialects.langfuse import request, route
from api.dialects.langfuse.evaluation import MEMORY_MB, TIMEOUT_S, Code
from gradebox import langfuse
from tests.api.dialects.langfuse.conftest import Evaluate

PAGE = Path("docs/langfuse.md").read_text()


@pytest.mark.service
def test_the_evaluator_that_it_shows(evaluate: Evaluate) -> None:
    (shown,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    words = {"name": "words", "value": 3, "dataType": "NUMERIC"}
    assert evaluate(shown, output="It is Paris.") == {"scores": [words]}
    right = {"name": "right", "value": True, "dataType": "BOOLEAN", "comment": "wanted Paris"}
    experiment = {"itemExpectedOutput": "Paris", "itemMetadata": None}
    assert evaluate(shown, output="It is Paris.", experiment=experiment) == {"scores": [words, right]}
    assert evaluate(shown, output={"a": 1})["scores"][0]["value"] == 2


def test_it_names_every_code_and_limit() -> None:
    codes = {code for part in get_args(Code) for code in (get_args(part) or (part,))}
    assert {code for code in codes if f"`{code}`" not in PAGE} == set()
    limits = f"{TIMEOUT_S:g} s for `evaluate`, {route.ANSWER_S:g} s with all that is waited for; {MEMORY_MB} MiB"
    assert limits in PAGE
    sizes = request.SOURCE_BYTES >> 10, request.BODY_BYTES >> 20, langfuse.RESULT_BYTES >> 10
    assert "{} KiB, {} MiB with the source, {} KiB".format(*sizes) in PAGE
