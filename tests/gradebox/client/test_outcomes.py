import random
from functools import partial

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradebox.client._sync.batch_handle import BatchHandle
from gradebox.client._sync.transport import Transport
from gradebox.client.batch_rewards import Rewards
from gradebox.client.combined_reward import combined
from gradebox.client.line_readers import OutcomeReader, SentThreadReader
from gradebox.client.rules import Rules
from gradebox.errors import ConnectionFailed, GradeboxError
from gradebox.outcome import Outcome, OutcomeError
from gradebox.schemas import Batch, BatchGrader
from tests.gradebox.making import JSON_LINES, batch

GRADERS = ("a@1", "b@2")
OUTCOMES = [Outcome(index, grader, index / 2, 0.1) for index in range(5) for grader in GRADERS]


def stream(outcomes: list[Outcome]) -> bytes:
    return b"".join(msgspec.json.encode(outcome) + b"\n" for outcome in outcomes)


def test_outcomes_are_read_however_the_stream_is_cut() -> None:
    body = stream(OUTCOMES)
    for size in (1, 7, 50, len(body)):
        reader = OutcomeReader(None)
        read = [outcome for at in range(0, len(body), size) for outcome in reader.feed(body[at : at + size])]
        assert read == OUTCOMES
        assert reader.end() == []


def test_a_last_line_without_an_end_is_read() -> None:
    reader = OutcomeReader(None)
    reader.feed(stream(OUTCOMES)[:-1])
    assert reader.end() == OUTCOMES[-1:]


@given(st.lists(st.integers(0, 700), max_size=5), st.sampled_from([None, -1, 0, 2]))
def test_a_stream_that_breaks_is_read_on_without_a_gap_or_a_repeat(breaks: list[int], after: int | None) -> None:
    reader = OutcomeReader(after)
    read = list[Outcome]()
    for cut in [*breaks, None]:
        start = reader.params.get("after", -1)
        body = stream([outcome for outcome in OUTCOMES if outcome.index > start])
        read += reader.feed(body[:cut])

    assert read == [outcome for outcome in OUTCOMES if outcome.index > (-1 if after is None else after)]


@pytest.mark.parametrize("line", [b"<html>", b'{"index": 0, "grader": "\xff"}'])
def test_what_is_no_outcome_is_an_error(line: bytes) -> None:
    with pytest.raises(ConnectionFailed, match="is no outcome"):
        OutcomeReader(None).feed(line + b"\n")


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_at_least_one(limit: int) -> None:
    with pytest.raises(ValueError, match=f"limit={limit} is no number of threads from 1 on: pass one, or None"):
        OutcomeReader(None, limit)


def over(threads: int, *graders: BatchGrader) -> Batch:
    total = threads * len(graders)
    return batch(total, "finished", total).model_copy(update={"graders": list(graders), "threads": threads})


@pytest.mark.parametrize("threads", [b'{"id": 0}\n', b'{"id": 0}\n{"id"'])
def test_threads_that_are_cut_off_are_an_error(threads: bytes) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        is_threads = request.url.path.endswith("/threads")
        return httpx.Response(200, headers=JSON_LINES, content=threads if is_threads else stream(OUTCOMES[::2][:2]))

    known = Rules("http://127.0.0.1:8000", "k", 5.0)
    handle = BatchHandle(Transport(known, httpx.MockTransport(handler)), over(2, BatchGrader(key="a", version=1)))
    pairs = handle.outcomes(threads=True)
    assert next(pairs) == (OUTCOMES[0], {"id": 0})
    with pytest.raises(ConnectionFailed, match=r"the threads were cut off (before|in the middle of) thread 1"):
        next(pairs)


def test_a_reward_is_the_weighted_sum_and_none_where_a_score_is_missing() -> None:
    rewards = Rewards(over(3, BatchGrader(key="a", version=1, weight=0.5), BatchGrader(key="b", version=2, weight=-2)))
    crash = OutcomeError("crash", "it ended")
    for index, a, b in [(0, 1.0, 0.25), (1, None, 1.0), (2, 1.0, None)]:
        rewards.add(Outcome(index, "a@1", a, 0.1, error=None if a is not None else crash))
        rewards.add(Outcome(index, "b@2", b, 0.1, error=None if b is not None else crash))

    assert rewards.result() == [0.0, None, None]


def test_rewards_of_a_batch_are_those_of_a_reward_to_the_last_bit() -> None:
    chance = random.Random(1)
    graders = [BatchGrader(key=f"g{number}", version=1, weight=chance.uniform(-1, 1)) for number in range(7)]
    parts = [[Outcome(n, str(grader), chance.uniform(0, 1), 0.1) for n in range(200)] for grader in graders]
    expected = [outcome.score for outcome in combined("reward", graders, parts)]
    one_by_one = [outcome for part in parts for outcome in part]
    for outcomes in (one_by_one, chance.sample(one_by_one, len(one_by_one))):
        rewards = Rewards(over(200, *graders))
        for outcome in outcomes:
            rewards.add(outcome)
        assert rewards.result() == expected


def test_a_reward_that_is_not_finite_is_none() -> None:
    graders = [BatchGrader(key=key, version=1, weight=1e308) for key in "ab"]
    rewards = Rewards(over(2, *graders))
    for grader in ("a@1", "b@1"):
        rewards.add(Outcome(0, grader, 1.0, 0.1))
        rewards.add(Outcome(1, grader, 0.5, 0.1))
    assert rewards.result() == [None, 1e308]


def test_threads_are_read_on_where_a_stream_broke() -> None:
    lines = [b'{"completion": "%d"}' % number for number in range(5)] + [b"no thread", b'{"a": NaN']
    data = b"\n".join(lines)
    for cut in range(len(data)):
        reader = SentThreadReader(None)
        assert reader.params == {}
        found = reader.feed(data[:cut])
        start = reader.params.get("after", -1) + 1
        assert start == len(found)
        found += reader.feed(b"\n".join(lines[start:]) + b"\n") + reader.end()
        assert found == [*({"completion": str(number)} for number in range(5)), "no thread", '{"a": NaN']


def test_threads_behind_one_are_asked_for() -> None:
    reader = SentThreadReader(7)
    assert reader.params == {"after": 7}
    reader.feed(b"{}\n{}\n{")
    assert reader.params == {"after": 9}


def test_outcomes_that_are_missing_are_an_error_and_recorded_scores_count_for_none() -> None:
    """Those of a batch that is scored again end early, and a proxy may cut off a stream."""
    sent = [*OUTCOMES, Outcome(4, "human@1", 1.0, 0.0)]
    whole = over(5, BatchGrader(key="a", version=1, weight=1.0), BatchGrader(key="b", version=2, weight=1.0))
    answers = httpx.MockTransport(lambda _: httpx.Response(200, headers=JSON_LINES, content=stream(sent)))
    handle = BatchHandle(Transport(Rules("http://127.0.0.1:8000", "k", 5.0), answers), whole)
    assert list(handle.outcomes()) == sent
    del sent[7:9]
    assert list(handle.outcomes(limit=5)) == sent
    for read in (handle.outcomes, partial(handle.outcomes, threads=True)):
        found = list[object]()
        with pytest.raises(GradeboxError, match="2 of 10 outcomes of batch b1 are missing"):
            found.extend(read())
    handle.status = whole.model_copy(update={"state": "running"})
    assert list(handle.outcomes()) == sent
