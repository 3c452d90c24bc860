import json
from functools import partial
from typing import Any

import pytest

from api.http.problems import ProblemError
from api.intake import score_upload
from api.intake.score_upload import outcomes_of
from sandbox.limits import TEXT_BYTES

THREADS = [{"id": "a"}, {"id": 7}, {"id": "b"}, {}, {"id": "b"}, {"id": "c\ud83d"}]
read = partial(score_upload.read, text_bytes=TEXT_BYTES)
BLOCKS = [b"".join(json.dumps(one).encode() + b"\n" for one in part) for part in (THREADS[:2], THREADS[2:])]


def lines(*scores: dict[str, Any] | str) -> bytes:
    return b"".join((one if isinstance(one, str) else json.dumps(one)).encode() + b"\n" for one in scores)


def test_scores_come_to_their_threads_with_the_ids_of_these() -> None:
    sent = read(lines({"index": 3, "score": 1}, {"id": 7, "score": 0.5, "reason": "ü"}, {"index": 0, "score": -1e308}))
    found = [(one.index, one.id, one.score, one.reason, one.grader) for one in outcomes_of(sent, "x@1", 6, BLOCKS)]
    assert found == [(0, "a", -1e308, None, "x@1"), (1, 7, 0.5, "ü", "x@1"), (3, None, 1.0, None, "x@1")]


def test_a_byte_order_mark_at_the_start_is_not_part_of_the_first_line() -> None:
    """Windows' programs write one. Batches accept it too."""
    sent = lines({"id": "a", "score": 1}, {"id": 7, "score": 0})
    assert read(b"\xef\xbb\xbf" + sent) == read(sent)
    with pytest.raises(ProblemError, match="line 2 is no score"):
        read(lines({"id": "a", "score": 1}) + b"\xef\xbb\xbf" + sent)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "line 2 is no score"),
        ("[]", "line 2 is no score"),
        ('{"id": "a", "score": NaN}', "line 2 is no score"),
        ('{"id": "a", "score": 1e999}', "line 2 is no score"),
        ('{"id": "a", "score": true}', "line 2 is no score"),
        ('{"id": "a", "score": "1"}', "line 2 is no score"),
        ('{"id": "a", "score": null}', "line 2 is no score"),
        ('{"id": "a", "scores": 1}', "line 2 is no score"),
        ('{"id": true, "score": 1}', "line 2 is no score"),
        ('{"index": -1, "score": 1}', "line 2 is no score"),
        ('{"id": "a", "score": 1, "reason": ' + "[" * 5000, "line 2 is no score"),
        ('{"id": "a", "score": 1, "reason": "cut \\ud83d"}', "line 2 is no score .it holds half a surrogate pair"),
        ('{"id": "a", "score": 1, "reason": "\\ud83d\\ude00', "line 2 is no score .Input data was truncated"),
        ('{"score": 1}', "give one of them"),
        ('{"id": "a", "index": 0, "score": 1}', "give one of them"),
        ('{"id": "a", "score": 1, "reason": "%s"}' % ("x" * 4097), "a reason of 4097 bytes"),
    ],
)
def test_a_line_that_is_no_score_is_named(line: str, said: str) -> None:
    with pytest.raises(ProblemError, match=said) as caught:
        read(lines({"id": 7, "score": 1}, line, {"id": "b", "score": 1}))
    assert caught.value.status == 422


def test_a_reason_may_be_as_long_as_one_of_a_sandbox() -> None:
    sent = lines({"id": "a", "score": 1, "reason": "x" * 4097})
    assert score_upload.read(sent, 4097)[0].reason == "x" * 4097
    with pytest.raises(ProblemError, match="a reason of 4097 bytes, and at most 1000 are kept"):
        score_upload.read(sent, 1000)


@pytest.mark.parametrize(
    ("score", "said"),
    [
        ({"id": "x"}, "line 2: the batch has no thread with the id 'x'"),
        ({"id": "7"}, "line 2: the batch has no thread with the id '7'"),
        (
            {"id": "b"},
            "the id 'b' is that of threads 2 and 4: nothing of this request was recorded; name them by `index`",
        ),
        ({"index": 6}, "line 2: the batch has no thread 6, it has 6"),
        ({"index": 1}, "lines 1 and 2 are both for thread 1"),
        ({"id": 7}, "lines 1 and 2 are both for thread 1"),
    ],
)
def test_a_score_of_no_thread_is_refused(score: dict[str, Any], said: str) -> None:
    sent = read(lines({"id": 7, "score": 1}, {**score, "score": 1}))
    with pytest.raises(ProblemError, match=said):
        outcomes_of(sent, "x@1", 6, BLOCKS)


def test_so_many_are_taken_at_once() -> None:
    one = b'{"index":0,"score":1}\n'
    assert len(read(one * 100_000)) == 100_000
    with pytest.raises(ProblemError, match="at most 100000 scores"):
        read(one * 100_001)
