"""Tests of numbers as text."""

import pytest

from gradebox.number_text import money_text, number_text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
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
        (0.99996, "0.99996"),
        (9.512345, "9.5123"),
        (99.996, "99.996"),
        (12346.7, "12,346.7"),
        (1 / 3 + 100, "100.3333"),
        (12345.000000000002, "12,345"),
        (123456789.123456, "123,456,789.1235"),
        (1.234e-5, "1.234e-05"),
        (float("inf"), "inf"),
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
def test_numbers_are_what_they_are(value: float, shown: str) -> None:
    assert number_text(value) == shown


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0.0, "0"), (1e-5, "0.00001"), (1.234e-5, "0.00001234"), (12.5, "12.5"), (1e-12, "0"), (1e15, "1" + ",000" * 5)],
)
def test_money_has_no_exponent(amount: float, shown: str) -> None:
    assert money_text(amount) == shown
