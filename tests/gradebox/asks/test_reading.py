"""Tests of reading a reply: it names one option, or none."""

import contextlib
from time import process_time
from typing import Any

import pytest

from gradebox.asks import reading

OPTIONS = ["yes", "no"]


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ('{"option": "yes"}', "yes"),
        ('{"option": "YES", "reasoning": "it is"}', "yes"),
        ('Here you are:\n```json\n{"option": "no"}\n```\nGood luck!', "no"),
        ('Sure. {"reasoning": "a {brace}", "option": "no"} That is all.', "no"),
        ('<think>{"option": "no"}</think>{"option": "yes"}', "yes"),
        ("no reasons were given</think> yes", "yes"),
        ("yes", "yes"),
        ('"No".', "no"),
        ("**yes**", "yes"),
    ],
)
def test_an_option_is_read_with_its_case_quotes_and_markup_put_right(text: str, option: str) -> None:
    found = reading.option_of(text, OPTIONS)
    assert found is not None
    assert found[0] == option


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not yes",
        "yes and no",
        "I cannot answer that.",
        '{"option": "maybe"}',
        '{"option": ["yes"]}',
        '{"option": true}',
        '{"score": "yes"}',
        '{"option": "ye',
        '{"reasoning": {"option": "yes"',
        '{"option": "yes"} {"option": "no"}',
        '["yes"]',
        "N/A",
        '{"option": NaN}',
    ],
)
def test_what_names_no_option_is_none(text: str) -> None:
    assert reading.option_of(text, OPTIONS) is None


def test_options_that_differ_by_case_alone_are_told_apart() -> None:
    assert reading.option_of("A", ["a", "A"]) == ("A", None)
    assert reading.option_of("á", ["a", "A"]) is None


@pytest.mark.parametrize(
    ("text", "options", "option"),
    [
        ('{"option": "A*"}', ["A*", "A"], "A*"),
        ('{"option": "A"}', ["A*", "A"], "A"),
        ('{"option": "A* "}', ["A*", "A"], "A*"),
        ("A*", ["A*", "A"], "A*"),
        ('"A*"', ["A", "A*"], "A*"),
        ("**", ["*", "**"], "**"),
        ("A", ["A*", "B"], "A*"),
        ("a.", ["A*", "B"], "A*"),
        ("A*.", ["A*", "A"], None),
        ("a", ["A*", "A"], None),
        ("", ["*", "none"], None),
        (".5", ["0.5", "5"], None),
        ('{"option": ".5"}', ["0.5", "5"], None),
        ("**.5**", ["5", "1"], None),
        (".5", [".5", "5"], ".5"),
        ("5.", ["0.5", "5"], "5"),
    ],
)
def test_an_exact_name_comes_first_and_a_bare_one_counts_if_one_option_has_it(
    text: str, options: list[str], option: str | None
) -> None:
    found = reading.option_of(text, options)
    assert (found and found[0]) == option


def test_a_bare_number_is_an_option_where_options_are_numbers() -> None:
    assert reading.option_of("5", ["1", "5"]) == ("5", None)
    assert reading.option_of("10", ["1", "5"]) is None


@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 100_000, '{"a":' * 50_000, "x" * 300_000, "{}" * 100_000])
def test_a_reply_that_is_made_to_break_the_reader_is_none(text: str) -> None:
    value: Any = None
    with contextlib.suppress(ValueError):
        value = reading.json_of(text)
    assert value in (None, {})


@pytest.mark.parametrize(
    "text", ["```\n" + " " * 250_000 + "x", "```\n" * 60_000, "```" + " " * 250_000 + "x", "{" * 250_000]
)
def test_what_is_no_json_is_seen_in_linear_time(text: str) -> None:
    """The service reads replies too, on one thread for all projects."""
    began = process_time()
    with pytest.raises(ValueError, match=r"it holds no JSON object|what stands in its fence"):
        reading.json_of(text)
    assert process_time() - began < 0.2
