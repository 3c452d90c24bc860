"""Tests of the display of values."""

import pytest

from ui.templates import MOST_SHOWN, _number, as_json


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "0"),
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (0.25, "0.25"),
        (1 / 3, "0.3333"),
        (0.99999, "0.99999"),
        (1.00004, "1.00004"),
        (0.9999999999999999, "1"),
        (-0.99999, "-0.99999"),
        (99.996, "99.996"),
        (1e-5, "1e-05"),
        (1.23456e-300, "1.235e-300"),
        (12345.0, "12,345"),
        (1234567.0, "1,234,567"),
        (1234.5, "1,234.5"),
        (1e15, "1e+15"),
        (1.23456e300, "1.235e+300"),
        (-1.7976931348623157e308, "-1.798e+308"),
        (1234567, "1,234,567"),
    ],
)
def test_numbers_are_what_they_are(value: float | None, shown: str) -> None:
    assert _number(value) == shown


def test_what_is_nested_deeply_is_shown_in_part() -> None:
    deep: list[object] = []
    for _ in range(2000):
        deep = [deep]
    assert len(as_json(deep)) == MOST_SHOWN + 1
    wide: list[object] = [1] * 100_000
    for _ in range(200):
        wide = [wide]
    assert len(as_json(wide)) == MOST_SHOWN + 1
    assert as_json({"ü": "<b>"}) == '{\n  "ü": "<b>"\n}'
