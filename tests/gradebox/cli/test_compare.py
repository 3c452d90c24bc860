"""Tests of what `gradebox compare`, `gradebox agreement` and `gradebox batches table` print."""

from typing import Any

import pytest

from gradebox.cli.compare import _show_agreement, _show_comparison
from gradebox.cli.outcome_table import _show_page
from gradebox.schemas.agreement import Agreement, Correlation, LengthBias
from gradebox.schemas.comparison import Compared, Comparison, Flip
from gradebox.schemas.outcome_table import TablePage, TableRow
from gradebox.schemas.summaries import BiasCount


def test_an_agreement_of_too_many_values_says_what_gives_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    none = Correlation(count=0, value=None, p_value=None)
    length = LengthBias(score=none, quarters=[], excess=none)
    fields: dict[str, Any] = dict.fromkeys(Agreement.model_fields) | {"rows": 21, "scored": 21, "values": []}
    fields |= {"spearman": none, "length": length, "position": BiasCount(checked=0, detected=0)}
    _show_agreement(Agreement.model_construct(**fields))
    assert capsys.readouterr().err == "more than 20 different values: set a --threshold to count them as 0 and 1\n"


def test_an_id_that_is_a_number_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    row = TableRow(12_345, "a@1", 1.0, 0.1, 20_231_105)
    _show_page(TablePage("b", "a@1", 1, 1, 50, "index", None, False, True, [row]))
    flip = Flip(id=20_231_105, index_a=1, index_b=1, score_a=0.0, score_b=1.0)
    told: dict[str, Any] = dict.fromkeys(Compared.model_fields) | {"errors": {}}
    side = Compared.model_construct(**told)
    fields: dict[str, Any] = dict.fromkeys(Comparison.model_fields, 0) | {"a": side, "b": side, "flips": [flip]}
    _show_comparison(Comparison.model_construct(**fields | {"paired_by": "id", "interval": None, "note": None}))
    shown = capsys.readouterr().out
    assert shown.count("20231105") == 2
    assert "12,345" in shown
