"""Tests of what `gradebox compare` and `gradebox agreement` print."""

from typing import Any

import pytest

from gradebox.cli.compare import _show_agreement
from gradebox.schemas.agreement import Agreement, Correlation, LengthBias
from gradebox.schemas.summaries import BiasCount


def test_an_agreement_of_too_many_values_says_what_gives_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    none = Correlation(count=0, value=None, p_value=None)
    length = LengthBias(score=none, quarters=[], excess=none)
    fields: dict[str, Any] = dict.fromkeys(Agreement.model_fields) | {"rows": 21, "scored": 21, "values": []}
    fields |= {"spearman": none, "length": length, "position": BiasCount(checked=0, detected=0)}
    _show_agreement(Agreement.model_construct(**fields))
    assert capsys.readouterr().err == "more than 20 different values: set a --threshold to count them as 0 and 1\n"
