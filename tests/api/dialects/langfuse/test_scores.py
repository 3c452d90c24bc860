from typing import Any

import pytest

from api.dialects.langfuse.scores import InvalidScore, check


def one(value: Any, data_type: str | None = None, **more: Any) -> list[dict[str, Any]]:
    return [{"name": "s", "value": value, **({} if data_type is None else {"dataType": data_type}), **more}]


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        *((value, "NUMERIC") for value in (0, 1.5, -3)),
        *((value, "CATEGORICAL") for value in ("", "good")),
        *((value, "BOOLEAN") for value in (0, 1, 1.0, True, False, "TRUE", "false", "0", "1")),
        *((value, "TEXT") for value in ("a", "é" * 500)),
        *((value, None) for value in (0, 0.5, "a", "")),
    ],
)
def test_values_that_langfuse_takes(value: object, data_type: str | None) -> None:
    (score,) = check(one(value, data_type))
    assert score.value == value and type(score.value) is type(value)


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        *((value, "NUMERIC") for value in ("1", True)),
        *((value, "CATEGORICAL") for value in (1, True)),
        *((value, "BOOLEAN") for value in (2, 0.5, "yes", "")),
        *((value, "TEXT") for value in ("", "a" * 501, "😀" * 251, 1)),
        *((value, None) for value in (True, False, [1], {"a": 1})),
        (1, "OTHER"),
    ],
)
def test_values_that_it_refuses(value: object, data_type: str | None) -> None:
    with pytest.raises(InvalidScore, match=r"scores\[0\]|score 's'"):
        check(one(value, data_type))


@pytest.mark.parametrize("scores", [None, [], {}, [[]], [{"name": "", "value": 1}], [{"value": 1}], [{"name": "s"}]])
def test_what_is_no_list_of_scores(scores: object) -> None:
    with pytest.raises(InvalidScore):
        check(scores)


def test_the_third_of_five_is_named() -> None:
    scores = [*one(1), *one(1), *one(True), *one(1), *one("x", "NUMERIC")]
    scores[2]["name"] = "third"
    with pytest.raises(InvalidScore, match="'third' is True"):
        check(scores)
    wrong: list[dict[str, Any]] = [{"comment": 1}, {"metadata": []}, {"configId": 2}]
    for more in wrong:
        with pytest.raises(InvalidScore, match=r"scores\[1\]"):
            check([*one(1), *one(1, **more)])


def test_mistakes_that_are_often_made_are_explained() -> None:
    with pytest.raises(InvalidScore, match="data_type is NUMERIC, BOOLEAN, CATEGORICAL or TEXT"):
        check(one(1, "numeric"))
    with pytest.raises(InvalidScore, match=r"The order is Score\(value, name\)"):
        check([{"value": "s", "name": 1}])
