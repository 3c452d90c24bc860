"""Tests of graders of groups through a real service: client, HTTP, command line."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from gradebox import Client, NotApplicable, Score, StringThread
from gradebox.client import GraderHandle
from gradebox.errors import ApiError
from tests.gradebox.conftest import Service, scored

pytestmark = [pytest.mark.service, pytest.mark.sandbox]


def _length(thread: StringThread) -> int:
    return len(thread.completion() or "")


async def shortest(threads: list[StringThread]) -> list[Score | Exception]:
    """A tournament in which the shorter one of two wins."""
    lengths = [_length(thread) for thread in threads]
    return [
        Score(sum(own < other for other in lengths) / (len(lengths) - 1), reason=f"{own} characters")
        if own
        else NotApplicable("it says nothing")
        for own in lengths
    ]


def thread(said: str) -> StringThread:
    return StringThread([("user", "Why?"), ("assistant", said)])


@pytest.fixture(scope="module")
def grader(client: Client) -> GraderHandle:
    return client.graders.create.function(key=f"shortest-{uuid4().hex[:8]}", fn=shortest)


@pytest.fixture(scope="module")
def plain(client: Client) -> str:
    key = f"plain-{uuid4().hex[:8]}"
    client.graders.create.function(key=key, fn="async def grade(thread: StringThread) -> float:\n    return 1.0\n")
    return key


def test_a_version_says_that_it_takes_groups(client: Client, grader: GraderHandle, plain: str) -> None:
    assert grader.groups
    assert client.graders.get(grader.key).groups
    assert client.graders.versions(grader.key)[0].groups
    assert not client.graders.get(plain).groups
    report = client.graders.validate(shortest)
    assert (report.valid, report.groups) == (True, True)
    assert report.checks[-1].message == "`grade` returned a score for each of 2 completions"
    assert report.outcomes[0].scores == [1.0, 0.0]
    changed = client.graders.update(plain, fn=shortest)
    assert changed.groups
    assert not client.graders.update(plain, fn="async def grade(thread: StringThread) -> float: return 1.0").groups


def test_an_exception_among_the_scores_of_the_test_run_fails_it_with_its_line(client: Client) -> None:
    source = """
async def broken(thread):
    raise ValueError("not yet")

async def grade(threads: list[StringThread]) -> list[float]:
    import asyncio
    return await asyncio.gather(*map(broken, threads), return_exceptions=True)
"""
    report = client.graders.validate(source)
    failed = report.failed
    assert failed is not None and (failed.name, failed.line) == ("test_run", 3)
    assert "2 of 2 completions have no score: ValueError: not yet" in failed.message


def test_scores_that_differ_between_two_runs_are_warned_of_though_their_mean_does_not(client: Client) -> None:
    source = """
runs = []
async def grade(threads: list[StringThread]) -> list[float]:
    runs.append(1)
    return [0.0, 1.0] if len(runs) % 2 else [1.0, 0.0]
"""
    report = client.graders.validate(source, isolation="batch")
    assert "thread 0, counted from 0, was scored 0.0, 1.0 the first time and 1.0, 0.0 the second" in report.warnings[-1]


def test_each_form_of_a_group_is_scored(client: Client, grader: GraderHandle) -> None:
    groups = [
        [thread("a"), thread("abc"), thread("ab")],
        [{"completion": "a"}, thread("abc"), [("assistant", "ab")]],
        [[("user", "Why?"), ("assistant", said)] for said in ("a", "abc", "ab")],
        {"threads": [thread("a"), {"completion": "abc"}, {"completion": "ab"}], "id": "third"},
        {"prompt": "Why?", "completions": ["a", "abc", "ab"], "metadata": {"n": 1}},
    ]
    outcomes = grader.score(groups)  # type: ignore[arg-type]
    assert [outcome.scores for outcome in outcomes] == [[1.0, 0.0, 0.5]] * 5
    assert [outcome.score for outcome in outcomes] == [0.5] * 5
    assert outcomes[3].id == "third"
    reasons = ["1 characters", "3 characters", "2 characters"]
    assert [each.reason for each in outcomes[0].completions or []] == reasons
    frame = outcomes.to_pandas()
    assert list(frame["scores"]) == [[1.0, 0.0, 0.5]] * 5
    assert list(frame["completions"]) == [[{"reason": reason} for reason in reasons]] * 5
    assert "scores" in outcomes._repr_html_()


@pytest.mark.parametrize(
    "wrong", [[thread("a"), "x"], {"threads": [{"messages": 1}]}, {"completions": "x"}, {"threads": []}]
)
def test_what_is_no_group_is_refused_before_it_is_sent(grader: GraderHandle, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="thread 0 is no thread"):
        grader.score([wrong])


def test_a_batch_of_groups(client: Client, grader: GraderHandle) -> None:
    groups = [[thread("x" * (n % 7 + 1)), thread("x" * 4)] for n in range(300)]
    batch = scored(client, grader.key, [*groups, [thread("a"), thread("")]])
    outcomes = list(batch.outcomes())
    assert (batch.done, batch.scored, batch.not_applicable, batch.errors) == (301, 300, 1, {})
    for n, outcome in enumerate(outcomes[:300]):
        own = n % 7 + 1
        assert outcome.scores == [float(own < 4), float(own > 4)]
    assert outcomes[300].not_applicable == "1 of 2 completions have no score: it says nothing"
    assert outcomes[300].scores == [0.0, None]
    assert batch.summary[0].mean == pytest.approx(sum(outcome.score or 0 for outcome in outcomes[:300]) / 300)
    (sent, *_) = [sent for _, sent in batch.outcomes(threads=True)]
    assert [each["messages"][-1]["content"] for each in sent["threads"]] == ["x", "xxxx"]


def test_a_batch_has_graders_of_one_kind(client: Client, grader: GraderHandle, plain: str) -> None:
    with pytest.raises(ApiError, match=r"takes groups of threads and .* takes single threads"):
        client.batches.create([grader.key, plain], [thread("a")])
    with pytest.raises(ValueError, match="takes groups of completions"):
        client.reward([grader.key])


def test_a_grader_that_asks_a_grader_of_groups_is_not_valid(client: Client, grader: GraderHandle) -> None:
    source = (
        f"from gradebox import Grader\nother = Grader({grader.key!r})\nasync def grade(t):\n    return await other(t)\n"
    )
    report = client.graders.validate(source)
    assert report.failed is not None
    assert "takes groups of threads, but an ask sends a grader one thread" in report.failed.message


def test_columns_of_a_dataset(client: Client, grader: GraderHandle) -> None:
    rows = [{"question": "Why?", "answers": ["a", "ab"], "n": 1}]
    (outcome,) = client.score(grader.key, rows, columns={"question": "prompt", "answers": "completions"})
    assert outcome.scores == [1.0, 0.0]


def test_a_command_scores_a_file_of_groups(service: Service, grader: GraderHandle, tmp_path: Path) -> None:
    lines = [
        {"prompt": "Why?", "completions": ["a", "ab", "abc"]},
        {"threads": [{"completion": said} for said in "ab"]},
        {"id": 5, "prompt": "Why?", "completions": ["a", ""]},
    ]
    file = tmp_path / "groups.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = service.run("score", grader.key, str(file), "-o", "-")
    assert done.returncode == 0, done.stderr
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["scores"] for one in outcomes[:2]] == [[1.0, 0.5, 0.0], [0.0, 0.0]]
    assert (outcomes[2]["id"], outcomes[2]["score"], outcomes[2]["scores"]) == (5, None, [0.0, None])
    assert outcomes[2]["completions"] == [{"reason": "1 characters"}, {"not_applicable": "it says nothing"}]
    assert "do not end with a turn" not in done.stderr
    assert "takes groups of threads" in service.run("graders", "show", grader.key).stdout
    source = tmp_path / "g.py"
    source.write_text("async def grade(threads: list[StringThread]) -> list[float]:\n    return [1.0] * len(threads)\n")
    service.ok("validate", str(source), "--threads", str(file))


def test_a_request_holds_as_many_threads_in_groups_as_without(service: Service, grader: GraderHandle) -> None:
    groups = [[thread("a"), thread("ab"), thread("abc")]] * 400
    assert [one.score for one in grader.score(groups)] == [0.5] * 400  # in two requests
    whole = {"completions": ["a"] * 1024}
    assert [len(one.scores or []) for one in grader.score([whole, whole])] == [1024, 1024]
    url = f"{service.url}/v1/projects/default/graders/{grader.key}/score"
    headers = {"Authorization": f"Bearer {service.key}"}
    answer = httpx.post(url, json={"threads": [{"completions": ["a"] * 501}] * 2}, headers=headers, timeout=60)
    assert (answer.status_code, answer.json()["type"]) == (413, "urn:gradebox:problem:too-large")
    assert "the groups have more than 1000 threads together" in answer.json()["detail"]
