import json

import numpy as np
import pytest

from api.numbers.error_groups import ErrorCounter
from api.numbers.index_job import bucket_starts
from storage.outcomes.index_file import MOST_BUCKETS


@pytest.mark.parametrize(
    "scores",
    [
        [],
        [0.5],
        [1.0] * 5000,
        [float(number % 7) for number in range(5000)],
        [number / 5000 for number in range(5000)],
        [0.0] * 3000 + [number / 2000 for number in range(2000)],
        [number % 300 for number in range(5000)],
    ],
    ids=["none", "one", "equal", "few", "all differ", "one heavy", "ties"],
)
def test_no_bucket_but_one_of_a_single_value_is_large(scores: list[float]) -> None:
    ascending = np.sort(np.array(scores, dtype=np.float64))
    starts = bucket_starts(ascending)
    assert len(starts) <= MOST_BUCKETS
    assert list(starts[:1]) == ([0] if scores else [])
    ends = [*starts[1:], len(ascending)] if scores else []
    for low, high in zip(starts, ends, strict=True):
        assert low < high
        assert low == 0 or ascending[low - 1] < ascending[low]
        assert high - low <= len(ascending) / 32 + 1 or ascending[low] == ascending[high - 1]


def test_errors_are_grouped_within_bounds() -> None:
    counts = ErrorCounter("g@1")
    for index in range(3000):
        counts.add(index, "exception", f"ValueError: no number in '{index}' (line 4)")
    for index in range(200):
        counts.add(index, "timeout", f"{'abcdefghij'[index % 10]}{'abcdefghij'[index // 20]} took long")
    found = json.loads(counts.pack())
    assert (found["grader"], found["total"]) == ("g@1", 3200)
    exception, timeout = found["kinds"]
    assert exception == {
        "kind": "exception",
        "count": 3000,
        "groups": [
            {
                "message": "ValueError: no number in '…'",
                "line": 4,
                "count": 3000,
                "example": "ValueError: no number in '0' (line 4)",
                "indices": [0, 1, 2, 3, 4],
            }
        ],
        "others": 0,
    }
    assert (len(timeout["groups"]), timeout["others"]) == (50, 100)


def test_messages_that_take_too_long_are_others() -> None:
    counts = ErrorCounter("g@1", time_s=0.05)
    for index in range(5000):
        counts.add(index, "exception", f"{index} " + "a 'b' 1.5 " * 100)
    (kind,) = json.loads(counts.pack())["kinds"]
    assert kind["count"] == 5000
    assert 0 < kind["groups"][0]["count"] < 5000
    assert kind["others"] == 5000 - kind["groups"][0]["count"]
