"""Tests of the lines, the grader and the record of batches of feedback."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from gradebox.outcome import Outcome, OutcomeError
from gradebox.schemas import Batch, FeedbackOf
from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool
from storage import redis_keys
from storage.batch_plan import UploadedBatch
from storage.batches import accepted_answer, feedback_grader
from storage.errors import Conflict, NotFound, Refused
from storage.outcomes import feedback_lines
from storage.spool.chunks import CHUNK_LINES
from storage.store import Store
from storage.uploads import Upload
from tests.storage.making import SOURCE, accept, claim, finish, finish_all, line, outcomes_of, plan_of, proved, wanted

LINES = CHUNK_LINES + 500
LINE_BYTES = 4096


def scores(outcome: Outcome) -> Outcome:
    """0 for even indices; an error for every tenth, and not applicable for every 25th."""
    if outcome.index % 25 == 0:
        return replace(outcome, score=None, not_applicable="so")
    if outcome.index % 10 == 0:
        return replace(outcome, score=None, error=OutcomeError("exception", "it raised"))
    return replace(outcome, score=float(outcome.index % 2), stdout="x" * 100, reason='"}}\\')


def finished(
    store: Store,
    *graders: Any,
    line: Callable[[int], bytes] = line,
    outcome: Callable[[Outcome], Outcome] = scores,
    lines: int = LINES,
) -> Batch:
    batch = accept(store, lines, *graders, line=line)
    finish_all(store, outcome)
    return store.batches.get("default", batch)


def of_threads(store: Store, *threads: bytes, ids: Sequence[str | int | None] = (None,) * 9) -> Batch:
    """A finished batch of these threads, which all have the score 0."""

    def outcome(one: Outcome) -> Outcome:
        return replace(one, score=0.0, id=ids[one.index])

    exact = wanted(store, "exact")
    return finished(store, exact, line=threads.__getitem__, lines=len(threads), outcome=outcome)


def read(
    store: Store, batch: Batch, of: FeedbackOf, labels: dict[str, float] | None = None, line_bytes: int = LINE_BYTES
) -> list[dict[str, Any]]:
    blocks = feedback_lines.read(store.batches, batch, of, labels or {}, line_bytes)
    return [json.loads(line) for line in b"".join(blocks).split(b"\n")[:-1]]


def of(batch: Batch, **more: Any) -> FeedbackOf:
    return FeedbackOf(**{"batch": batch.id, "grader": "exact@1", "model": "m", "threshold": 1.0} | more)


def test_failures_stand_with_their_threads_as_both_were_written(store: Store) -> None:
    batch = finished(store, wanted(store, "exact"))
    found = read(store, batch, of(batch))
    numbers = [number for number in range(LINES) if number % 2 == 0 and number % 10]
    assert [one["id"] for one in found] == numbers
    for one, number in zip(found, numbers, strict=True):
        assert one["completion"] == "" and one.keys() == {"id", "completion", "metadata"}
        assert one["metadata"].keys() == {"outcome", "thread"}
        assert one["metadata"]["thread"] == {"turns": [["assistant", str(number)]], "id": number}
        told = one["metadata"]["outcome"]
        assert (told["index"], told["score"], told["reason"]) == (number, 0.0, '"}}\\')
    assert len(read(store, batch, of(batch, on="all", threshold=None))) == sum(
        1 for number in range(LINES) if number % 10 and number % 25
    )
    assert read(store, batch, of(batch, threshold=0.0)) == []


def test_labels_come_from_a_grader_from_the_request_or_later_from_the_thread(store: Store) -> None:
    def outcome(one: Outcome) -> Outcome:
        return replace(one, score=1.0 if one.grader == "gold@1" else float(one.index % 2))

    batch = finished(store, wanted(store, "other"), wanted(store, "exact"), wanted(store, "gold"), outcome=outcome)
    by_grader = read(store, batch, of(batch, labels="gold@1", threshold=None))
    assert [(one["id"], one["metadata"]["label"]) for one in by_grader] == [(n, 1.0) for n in range(0, LINES, 2)]
    assert {one["metadata"]["outcome"]["grader"] for one in by_grader} == {"exact@1"}
    given = {"1": 0.5, "2": 0.5, "3": 1.0}
    assert [one["id"] for one in read(store, batch, of(batch, labels="given", threshold=None), given)] == [1, 2]
    assert [one["id"] for one in read(store, batch, of(batch, labels="given", threshold=0.4), given)] == [2]
    everyone = of(batch, labels="given", on="all", threshold=None)
    assert [one["id"] for one in read(store, batch, everyone, given)] == [1, 2, 3]
    assert len(read(store, batch, of(batch, labels="metadata.gold"))) == LINES


def test_a_label_is_of_one_thread(store: Store) -> None:
    threads = [b'{"completion": "a"}\n', b'{"completion": "b", "id": "0"}\n', b'{"completion": "c", "id": 7}\n']
    batch = of_threads(store, *threads, ids=(None, "0", 7))
    given = of(batch, labels="given", threshold=None)
    assert [one["metadata"]["label"] for one in read(store, batch, given, {"7": 1.0})] == [1.0]
    with pytest.raises(Refused, match="'0' is that of threads 0 and 1: record labels by `index`"):
        read(store, batch, given, {"0": 1.0, "7": 1.0})
    with pytest.raises(Refused, match="1 of 2 labels are of no thread of the batch, such as '2'"):
        read(store, batch, given, {"7": 1.0, "2": 1.0})


@pytest.mark.parametrize(("chunk", "labelled"), [(0, 2), (1, LINES - 2)])
def test_of_a_cancelled_batch_outcomes_keep_their_threads_and_labels_may_be_of_others(
    store: Store, chunk: int, labelled: int
) -> None:
    batch = accept(store, LINES, wanted(store, "exact"))
    lease = [claim(store), claim(store)][chunk]
    finish(store, lease, [scores(one) for one in outcomes_of(store, lease)])
    store.batches.cancel("default", batch)
    cancelled = store.batches.get("default", batch)
    assert cancelled.state == "cancelled"
    found = read(store, cancelled, of(cancelled, on="all", threshold=None))
    assert 0 < len(found) == cancelled.scored < LINES
    for one in (one["metadata"] for one in found):
        assert one["thread"]["id"] == one["outcome"]["index"] and one["outcome"]["index"] // CHUNK_LINES == chunk
    labels = {"2": 1.0, str(LINES - 2): 1.0}
    found = read(store, cancelled, of(cancelled, labels="given", threshold=None), labels)
    assert [one["id"] for one in found] == [labelled]


def test_threads_of_any_look_are_moved_and_too_long_ones_are_left_out(store: Store) -> None:
    threads = [
        b'\xef\xbb\xbf{"completion": "a"} \r\n',
        b'\t{"completion": "\\ud800\\\\ud800",\r"prompt": ""}\n',
        b'{"completion": "%b"}\n' % (b"x" * LINE_BYTES),
        b'{"completion": "\xe2\x80\xa8\x85"}\n',  # line separators in other places, but not here
    ]
    batch = of_threads(store, *threads)
    blocks = feedback_lines.read(store.batches, batch, of(batch), {}, LINE_BYTES)
    lines = b"".join(blocks).split(b"\n")
    assert len(lines) == 5 and lines[4] == b""
    assert all(len(line) < LINE_BYTES for line in lines)
    assert b'"thread":{"completion": "a"}}}' in lines[0]
    assert b'"thread":{"completion": "\\ud800\\\\ud800",\r"prompt": ""}}}' in lines[1]
    assert lines[2].endswith(b'"thread":null}}')
    assert threads[3].strip() in lines[3]
    assert [line[:7] for line in lines[:4]] == [b'{"id":%d' % number for number in range(4)]


@pytest.mark.parametrize(
    "thread",
    [
        b'null}},"id":"other","x":{"y":1',
        b'null,"outcome":{"index":9,"grader":"x@1","score":1.0}',
        b'{"completion": "4"},"label":7',
        b'{"completion": "4"',
        b'"\xff',
        b" ",
        b"[" * 2000,
    ],
)
def test_what_is_no_json_stands_as_text_and_ends_nothing(store: Store, thread: bytes) -> None:
    batch = of_threads(store, thread + b"\n", b'{"completion": "4"}\n')
    first, second = read(store, batch, of(batch))
    assert first.keys() == {"id", "completion", "metadata"} and (first["id"], second["id"]) == (0, 1)
    assert first["metadata"]["outcome"]["index"] == 0
    assert first["metadata"].keys() == {"outcome", "thread"}
    assert first["metadata"]["thread"] == thread.strip().decode(errors="replace")


def given_feedback(store: Store) -> tuple[Batch, FeedbackOf]:
    """A finished batch of feedback with one retryable error."""
    batch = finished(store, wanted(store, "exact"), lines=20)
    order = of(batch, instructions="{mind} 'this'")
    grader = feedback_grader.wanted(store.graders, "default", order)
    upload = Upload(store, "default", [grader])
    for block in feedback_lines.read(store.batches, batch, order, {}, LINE_BYTES):
        upload.write(block)
    new = UploadedBatch(upload.id, "default", [grader], upload.finish(), feedback_of=order)
    made = store.acceptance.accept(new, lambda pipe: None)
    assert made.feedback_of == order
    lease = claim(store, "asking")
    told = [replace(one, grader=grader.label, score=0.0) for one in outcomes_of(store, lease)]
    told[0] = replace(told[0], score=None, error=OutcomeError("model", "away", True, "unreachable"))
    assert finish(store, lease, told)
    return store.batches.get("default", made.id), order


def test_what_feedback_is_on_is_kept_and_makes_its_grader_again(store: Store) -> None:
    batch, order = given_feedback(store)
    assert (batch.feedback_of, batch.state, str(batch.graders[0])) == (order, "finished", "feedback/exact@1")
    store.freezer.freeze(batch.id)
    assert store.redis.hexists(redis_keys.FROZEN, batch.id)
    assert store.batches.get("default", batch.id).feedback_of == order
    assert store.batches.newest("default", 1)[0].feedback_of == order
    assert accepted_answer.read(accepted_answer.pack(batch), "default").feedback_of == order
    now = store.retries.begin("default", batch.id, lambda lane, units: None)
    assert (now.state, now.feedback_of) == ("running", order)
    claim(store, "asking")
    version = store.batches.source(plan_of(store, batch.id).scorers[0])
    assert (
        version is not None and version.source == feedback_grader.wanted(store.graders, "default", order).version.source
    )
    compile(version.source, "feedback", "exec")
    assert "instructions=\"{mind} 'this'\"" in version.source


def test_its_grader_has_no_more_than_the_project(store: Store) -> None:
    batch = finished(store, wanted(store, "exact"), lines=20)
    for most, has in (((0.5, 64), (0.5, 64)), ((9, 512), (5, 256))):
        store.projects.set_limits("default", dict(zip(("timeout_s", "memory_mb"), most, strict=True)))
        version = feedback_grader.wanted(store.graders, "default", of(batch)).version
        assert (version.timeout_s, version.memory_mb) == has


def test_without_the_grader_it_is_on_it_is_not_retried(store: Store) -> None:
    batch, order = given_feedback(store)
    store.graders.delete("default", "exact")
    with pytest.raises(Conflict, match="no longer exists"):
        store.retries.begin("default", batch.id, lambda lane, units: None)
    with pytest.raises(NotFound):
        feedback_grader.wanted(store.graders, "default", order)


@pytest.mark.sandbox
@pytest.mark.parametrize("letter", ["x", "\U000e0001", "\U0001f600", "\x01"])
def test_settings_of_any_letters_leave_a_grader_that_loads(store: Store, pool: Pool, letter: str) -> None:
    source = f"# {letter * (60_000 // len(letter.encode()))}\n{SOURCE}"
    store.graders.create("default", "exact", "exact", letter * 4000, proved(source))
    order = FeedbackOf(batch="b1", grader="exact@1", model="m", instructions=letter * 4000)
    version = feedback_grader.wanted(store.graders, "default", order).version
    with pool.grading(GraderSource.of_version("default", version)) as grading:
        (outcome,) = grading.score(b'{"completion": ""}\n', 0, "feedback/exact@1")
    assert outcome.error is not None and "KeyError: 'outcome'" in outcome.error.message  # the thread has no outcome


def test_low_scores_are_no_warning_and_are_not_remembered(store: Store) -> None:
    batch = finished(store, wanted(store, "exact"), lines=100, outcome=lambda one: replace(one, score=0.0))
    assert batch.summary[0].warning_kinds == ["equal"]
    order = of(batch)
    grader = feedback_grader.wanted(store.graders, "default", order)
    made = accept(store, 100, grader, feedback_of=order)
    finish_all(store, lambda one: replace(one, score=0.0), "asking")
    over = store.batches.get("default", made)
    assert (over.scored, over.summary[0].warnings) == (100, [])
    store.freezer.freeze(made)
    assert store.redis.llen(redis_keys.rewards("default", grader.key)) == 0
    assert store.redis.llen(redis_keys.rewards("default", "exact")) == 0
    store.freezer.freeze(batch.id)
    assert store.redis.llen(redis_keys.rewards("default", "exact")) == 1


def test_who_reads_has_a_turn_where_nothing_is_said_for_long(store: Store) -> None:
    long = b'{"completion": "%b"}\n' % (b"x" * 3000)
    batch = finished(
        store, wanted(store, "exact"), line=lambda number: long,
        outcome=lambda one: replace(one, score=float(one.index != LINES - 1)),
    )  # fmt: skip
    blocks = list(feedback_lines.read(store.batches, batch, of(batch), {}, LINE_BYTES))
    assert len(blocks) == 1 + LINES * len(long) // (1 << 20) and not any(blocks[:-1])
    assert json.loads(blocks[-1])["id"] == LINES - 1
