"""Tests of checks of the completion: what passes, what fails, and the reasons."""

from time import process_time
from typing import Any

import pytest

from gradebox import StringThread
from gradebox.checks import (
    ThreadCheck,
    contains,
    ends_with,
    equals,
    fits_schema,
    is_json,
    matches,
    max_characters,
    max_words,
    min_words,
    not_contains,
    not_matches,
    satisfies,
    starts_with,
)

DEEP = 1_000_000  # more than any Python's parser reads: before 3.12, its limit is the recursion limit
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


async def later(text: str) -> bool:
    return False


def is_short(text: str) -> bool:
    return len(text) < 5


def thread(text: str) -> StringThread:
    return StringThread([("user", "Hi"), ("assistant", text)])


@pytest.mark.parametrize(
    ("check", "passes", "fails", "reason"),
    [
        (contains("4"), "it is 4", "five", "expected '4' in the completion, found 'five'"),
        (contains("Paris"), "in Paris", "in paris", "expected 'Paris' in the completion, found 'in paris'"),
        (contains("STRASSE", ignore_case=True), "Straße", "road", "expected 'STRASSE' in the completion, found 'road'"),
        (not_contains("sorry"), "Sorry", "so sorry", "expected no 'sorry' in the completion, found 'so sorry'"),
        (matches(r"\d+ km$"), "it is\n5 km", "5 km.", r"expected a match of '\\d+ km$', found '5 km.'"),
        (not_matches(r"\d"), "x", "ab12", r"expected no match of '\\d', found '1' at character 2"),
        (starts_with("A"), "Ab", " A", "expected a start of 'A', found ' A'"),
        (ends_with("."), "yes.", "yes. ", "expected an end of '.', found an end of 'yes. '"),
        (equals("4"), "4", "4 ", "expected '4', found '4 '"),
        (equals(4), "4.0", "true", "expected JSON that says 4, found 'true'"),
        (equals(True), "true", "1", "expected JSON that says True, found '1'"),
        (equals(None), " null ", "None", "expected JSON that says None, found 'None'"),
        (equals({"a": [1, None]}), '{"a": [1, null]}', '{"a": [1]}', """says {'a': [1, None]}, found '{"a": [1]}'"""),
        (equals([1]), "[1]", "[true]", "expected JSON that says [1], found '[true]'"),
        (satisfies(is_short), "abcd", "abcde", "expected what satisfies is_short, found 'abcde'"),
        (max_words(2), " two\nwords ", "these three words", "expected at most 2 words, found 3"),
        (min_words(2), "two words", "", "expected at least 2 words, found 0"),
        (max_characters(3), "äöü", "abcd", "expected at most 3 characters, found 4"),
        (is_json(), "[1, 2]", "[1, 2] yes", "expected JSON, found '[1, 2] yes': Extra data"),
        (is_json(), "0", "NaN", "expected JSON, found 'NaN': NaN is no JSON"),
        (fits_schema(PERSON), '{"name": "A", "age": 3}', '{"name": "A"}', 'fits the schema: "age" is missing in'),
        (fits_schema(PERSON), '{"name": "", "age": 0}', '{"name": "A", "age": true}', '"age" must be of type integer'),
        (fits_schema(PERSON), '{"age": 1, "name": "B"}', "{", "fits the schema: Expecting property name"),
        (fits_schema(PERSON), '{"age": 3.0, "name": ""}', '{"name": "", "age": 3.5}', '"age" must be of type integer'),
        (fits_schema({"enum": [1, 2]}), "1e0", "true", "must be one of [1, 2]"),
    ],
    ids=lambda value: repr(value) if isinstance(value, ThreadCheck) else "",
)
def test_what_passes_and_what_fails(check: ThreadCheck, passes: str, fails: str, reason: str) -> None:
    passed, failed = check(thread(passes)), check(thread(fails))
    assert (passed, passed.reason) == (1.0, None)
    assert failed == 0.0
    assert reason in str(failed.reason)


@pytest.mark.parametrize(
    "make",
    [
        lambda: contains(""),
        lambda: contains(4),  # type: ignore[arg-type]
        lambda: contains("x", ignore_case="false"),  # type: ignore[arg-type]
        lambda: matches("("),
        lambda: matches("a{99999999999999999999}"),
        lambda: max_words(-1),
        lambda: max_words(True),
        lambda: equals({1, 2}),
        lambda: satisfies("fn"),  # type: ignore[arg-type]
        lambda: satisfies(later),
        lambda: fits_schema({"pattern": "a"}),
    ],
)
def test_what_is_no_check_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"takes|has `pattern`"):
        make()


@pytest.mark.parametrize("check", [not_contains("x"), max_words(3), satisfies(bool), not_matches("x"), is_json()])
def test_without_a_completion_there_is_no_score(check: ThreadCheck) -> None:
    with pytest.raises(ValueError, match="no completion to score"):
        check(StringThread([("user", "Hi")]))


def test_what_a_predicate_raises_is_no_failure() -> None:
    with pytest.raises(ZeroDivisionError):
        satisfies(lambda text: 1 / len(text))(thread(""))


@pytest.mark.filterwarnings("error")
def test_a_coroutine_is_no_true_answer() -> None:
    with pytest.raises(ValueError, match=r"satisfies\(fn=\) takes .* at once, and <lambda> returned a coroutine"):
        satisfies(lambda text: later(text))(thread(""))


def test_reasons_are_bounded() -> None:
    reason = contains("y" * 10_000)(thread("x" * 1_000_000)).reason
    assert reason is not None and len(reason) < 600
    assert "… (1,000,000 characters)" in reason


@pytest.mark.parametrize("text", ["[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP + " "])
def test_json_that_is_nested_too_deeply_is_an_error(text: str) -> None:
    """It scored 0.0."""
    for check in (is_json(), fits_schema({})):
        with pytest.raises(ValueError, match="too deeply for Python's JSON parser, so whether it is JSON is not known"):
            check(thread(text))
    assert equals([1])(thread(text)) == 0.0  # whatever is inside


@pytest.mark.parametrize("text", ["[" * DEEP, '[{"a":' * DEEP + "1"])
def test_brackets_that_are_never_closed_are_no_json_however_many(text: str) -> None:
    for check in (is_json(), fits_schema({})):
        score = check(thread(text))
        assert score == 0.0
        assert "an array or object in it is not closed" in str(score.reason)


@pytest.mark.parametrize("sign", ["", "-"])
def test_an_integer_of_many_digits_is_one(sign: str) -> None:
    """Python does not convert it, so it scored 0.0."""
    text = sign + "9" * 1_000_000
    least = {"minimum": 0} if not sign else {"maximum": -(10**4000)}
    most = {"maximum": 10**4000} if not sign else {"minimum": 0}
    began = process_time()
    assert is_json()(thread(f"[{text}]")) == 1.0
    assert fits_schema({"type": "integer", **least})(thread(text)) == 1.0
    assert "must be at" in str(fits_schema(most)(thread(text)).reason)
    assert "must be 9" in str(fits_schema({"const": 9})(thread(text)).reason)
    assert equals(9)(thread(text)) == 0.0
    assert process_time() - began < 1


def test_a_check_as_json_and_back() -> None:
    assert contains("x").config() == {"check": "contains", "text": "x"}
    assert repr(contains("x", ignore_case=True)) == "contains(text='x', ignore_case=True)"
    with pytest.raises(ValueError, match="holds a function"):
        satisfies(is_short).config()
