"""Tests of what similar error messages have in common."""

import time

import pytest

from gradebox.similar_messages import group_of


@pytest.mark.parametrize(
    ("message", "said", "line"),
    [
        ("KeyError: 'answer' (line 12)", "KeyError: '…'", 12),
        ('ValueError: could not convert "1,5" to float (line 3)', 'ValueError: could not convert "…" to float', 3),
        ("took 5.02 s at 0x7f3a of -3", "took # s at # of -#", None),
        ("it doesn't know utf8 and float64, can't", "it doesn't know utf8 and float64, can't", None),
        ("no line (line x)", "no line (line x)", None),
        ("'It's 4.' isn't 'it'", "'…' isn't '…'", None),
        (
            "`timeout_s` of chatcmpl-9aXk2Lq8 in row_17 and q17, 0000002a",
            "`timeout_s` of chatcmpl-# in row_# and #, …",
            None,
        ),
        ("no 123e4567-e89b-12d3-a456-426614174000, sha256", "no #, sha256", None),
        ("[1, 2.5, 3] of ['a', 'b'] and (4) (line 1)", "[#, …] of ['…', …] and (#)", 1),
        (f"no number in '{'It is. ' * 100}' (line 2)", "no number in '…'", 2),
        (f'no number in "{"It is. " * 100}', 'no number in "…"', None),
    ],
)
def test_a_message_without_what_varies(message: str, said: str, line: int | None) -> None:
    assert group_of(message) == (said, line)


@pytest.mark.parametrize(
    "part", ["a", "1", "a1", "1a,", "f", "'", "' ", "'a", "a'", "'a 'b", '"', "`", "0x", "1.1", "#, ", "e4e4-"]
)
def test_no_message_takes_long(part: str) -> None:
    began = time.perf_counter()
    for _ in range(10):
        group_of(part * 50_000)
    assert time.perf_counter() - began < 0.5
