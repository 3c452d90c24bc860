import json
from math import inf, nan
from typing import Any

import pytest

from gradebox.client.recorded_scores import score_lines
from gradebox.limits import REQUEST_BYTES
from gradebox.score import Score


def test_scores_become_lines() -> None:
    import numpy as np

    (body,) = score_lines({"a": 1, 7: Score(0.5, reason="ü"), np.int64(8): np.float32(0.25)}, "id")  # type: ignore[arg-type]  # as of a column
    assert [json.loads(line) for line in body.splitlines()] == [
        {"id": "a", "score": 1.0},
        {"id": 7, "score": 0.5, "reason": "ü"},
        {"id": 8, "score": 0.25},
    ]


def test_many_are_sent_in_several_requests() -> None:
    bodies = list(score_lines(dict.fromkeys(range(50_000), 1.0), "index"))
    assert [body.count(b"\n") for body in bodies] == [20_000, 20_000, 10_000]
    assert json.loads(bodies[2].splitlines()[-1]) == {"index": 49_999, "score": 1.0}


def test_bodies_with_long_reasons_are_no_longer_than_the_service_takes() -> None:
    reason = "ü" * 10_000  # six bytes per character in JSON
    scores = {number: Score(1, reason=reason) for number in range(600)}
    bodies = list(score_lines(scores, "index"))
    assert all(len(body) <= REQUEST_BYTES for body in bodies)
    lines = [json.loads(line) for line in b"".join(bodies).splitlines()]
    assert [line["index"] for line in lines] == list(range(600))


@pytest.mark.parametrize(
    ("scores", "by", "error", "told"),
    [
        *(({"a": 1, "b": score}, "id", ValueError, "thread 'b'") for score in ("1", None, nan, inf, [1])),
        ({}, "id", ValueError, "there are no scores"),
        ({"a": 1}, "ids", ValueError, "names no threads"),
        ([1], "index", TypeError, r"\[1\] is no dict: pass the scores by thread"),
    ],
)
def test_what_is_no_score_of_a_thread_is_not_sent(scores: Any, by: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        score_lines(scores, by)
