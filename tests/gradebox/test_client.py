"""Tests of the client against a real service."""

import asyncio
import json
import pickle
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

import gradebox
from gradebox import AsyncClient, Client, Score, StringThread
from gradebox.errors import (
    ApiError,
    BatchFailed,
    Conflict,
    GraderWarning,
    NotAllowed,
    NotFound,
    ValidationError,
    WaitTimeout,
)
from tests.gradebox.conftest import Service, scored

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

CONTAINS = """
async def grade(thread: StringThread) -> float:
    return float(thread.metadata["answer"] in thread.completion())
"""
SLEEPS = """
import time

async def grade(thread: StringThread) -> float:
    time.sleep(thread.metadata.get("sleep", 0))
    return 1.0
"""


async def exact(thread: StringThread) -> float:
    hit = thread.completion() == thread.metadata["answer"]
    return Score(float(hit), reason="equal" if hit else "different")


def thread(said: str, answer: str = "4") -> StringThread:
    return StringThread([("user", "2+2?"), ("assistant", said)], {"answer": answer})


@pytest.fixture
def contains(client: Client) -> str:
    key = f"contains-{uuid4().hex[:8]}"
    client.graders.create(key=key, fn=CONTAINS, description="looks for the answer", threads=[thread("4")])
    return key


def test_a_function_becomes_a_grader_and_scores(client: Client) -> None:
    grader = client.graders.create.function(key="exact", fn=exact, description="equality", threads=[thread("4")])

    right, wrong = client.score("exact", [thread("4"), thread("5")])

    assert (grader.key, grader.version, grader.description) == ("exact", 1, "equality")
    assert (right.score, right.reason, right.grader, right.index) == (1.0, "equal", "exact@1", 0)
    assert (wrong.score, wrong.reason) == (0.0, "different")


def test_what_the_checks_warn_of_reaches_the_caller_at_their_own_line(client: Client, service: Service) -> None:
    key = f"warned-{uuid4().hex[:8]}"
    body = "    try:\n        import sympy\n    except ImportError:\n        return 0.0\n    return 1.0\n"
    source = f"async def grade(thread: StringThread) -> float:\n{body}"
    with pytest.warns(GraderWarning) as created:
        grader = client.graders.create.function(key=key, fn=source)
    with pytest.warns(GraderWarning) as put:
        client.graders.put(key, fn=source.replace("1.0", "0.5"))
    with pytest.warns(GraderWarning) as updated:
        grader.update(source.replace("sympy", "numpy"))
    said_of_3 = f"{key}@3: line 3: `numpy`"
    for warned, said in ((created, f"{key}@1: line 3: `sympy` cannot"), (put, f"{key}@2:"), (updated, said_of_3)):
        (one,) = warned
        assert str(one.message).startswith(said)
        assert one.filename == __file__
    assert client.graders.get(key).warnings[0].startswith("line 3: `numpy`")

    async def awaits() -> None:
        async with AsyncClient(service.url, service.key) as awaiting:
            with pytest.warns(GraderWarning, match="`sympy`") as put:
                await awaiting.graders.put(key, fn=source)
            assert [one.filename for one in put] == [__file__]

    asyncio.run(awaits())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.graders.update(key, description="no new proof, no warning")
        client.graders.put(key, source)  # the same version
        client.graders.put(key, fn="async def grade(thread): return 0.5")  # annotations change no score
    assert len(client.graders.get(key).warnings) == 2


def test_a_version_that_somebody_made_meanwhile_is_not_replaced(client: Client) -> None:
    source = "async def grade(thread): return {}"
    client.graders.create.function(key="shared", fn=source.format(1))
    assert client.graders.update("shared", fn=source.format(2), if_version=1).version == 2
    with pytest.raises(gradebox.VersionChanged, match="at version 2"):
        client.graders.update("shared", fn=source.format(3), if_version=1)
    with pytest.raises(TypeError, match="if_version="):
        client.graders.update("shared", name="Shared", if_version=2)


def test_of_processes_that_put_a_new_grader_at_once_each_gets_it(client: Client) -> None:
    source = "import time\ntime.sleep(0.3)\nasync def grade(thread): return 1.0"
    with ThreadPoolExecutor() as pool:
        assert [put.version for put in pool.map(lambda _: client.graders.put("at-once", source), range(2))] == [1, 1]


def test_test_threads_stay_with_a_grader(client: Client, contains: str) -> None:
    messages = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
    assert client.graders.test_threads(contains) == [{"messages": messages, "metadata": {"answer": "4"}}]
    changed = client.graders.update(contains, fn=f"# changed\n{CONTAINS}")
    assert (changed.version, changed.test_threads) == (2, 1)
    assert client.graders.put(contains, fn=CONTAINS).version == 3
    assert not client.graders.validate(CONTAINS)
    assert client.graders.validate(CONTAINS, grader=contains)


def test_a_grader_can_be_handled_by_itself(client: Client, contains: str) -> None:
    first = client.graders.get(contains)
    second = first.update(fn=f"# changed\n{CONTAINS}", description="other", name="Contains")
    assert (first.version, second.version, second.description, second.name) == (1, 2, "other", "Contains")
    assert [version.number for version in second.versions()] == [1, 2]
    assert [each.score([thread("4")])[0].grader for each in (first, second)] == [f"{contains}@1", f"{contains}@2"]
    second.delete()
    with pytest.raises(NotFound):
        client.graders.get(contains)
    with pytest.raises(NotFound, match="there is no grader"):  # and not that it lacks a version
        client.score(f"{contains}@1", [thread("4")])
    with pytest.raises(NotFound, match="there is no grader"):
        client.score(contains, [])


def test_an_old_version_scores_on(client: Client, contains: str) -> None:
    client.graders.update(contains, fn="async def grade(thread): return 0.25")

    assert [o.score for o in client.score(contains, [thread("4")])] == [0.25]
    assert [o.score for o in client.score(contains, [thread("4")], version=1)] == [1.0]
    with pytest.raises(ApiError, match="version is 0, and must be at least 1"):
        client.score(contains, [thread("4")], version=0)
    for threads in ([], [thread("4")]):
        with pytest.raises(NotFound, match="has no version 3"):
            client.score(f"{contains}@3", threads)
    assert client.score(f"{contains}@1", []) == []
    assert [o.score for o in client.score(f"{contains}@1", [thread("4")])] == [1.0]


def test_an_update_between_requests_changes_no_score(client: Client, contains: str) -> None:
    def threads() -> Iterator[StringThread]:
        for number in range(1_100):
            if number == 1_050:
                client.graders.update(contains, fn=CONTAINS.replace("float(", "0.5 * ("))
            yield thread("4")

    assert {(one.grader, one.score) for one in client.score(contains, threads())} == {(f"{contains}@1", 1.0)}
    assert client.score(contains, [thread("4")])[0].grader == f"{contains}@2"


def test_more_threads_than_a_request_holds_are_scored_in_order(client: Client, contains: str) -> None:
    outcomes = client.score(contains, (thread(str(number % 5)) for number in range(2_500)))

    assert [outcome.index for outcome in outcomes] == list(range(2_500))
    assert [outcome.score for outcome in outcomes] == [float(number % 5 == 4) for number in range(2_500)]


def test_a_batch_scores_all_forms_of_threads(client: Client, contains: str) -> None:
    threads: list[gradebox.client.thread_line.Thread] = [
        thread("4"),
        {"prompt": "2+2?", "completion": "5", "metadata": {"answer": "4"}, "id": "mine"},
        {"completion": "\ud83d 4", "metadata": {"answer": "\ud83d"}},
        [("assistant", "no metadata")],
    ]

    batch = client.batches.create(contains, threads)
    batch.wait()

    scores = [(outcome.score, outcome.error and outcome.error.kind) for outcome in batch.outcomes()]
    assert scores == [(1.0, None), (0.0, None), (1.0, None), (None, "exception")]
    assert [outcome.id for outcome in batch.outcomes()] == [None, "mine", None, None]
    assert batch.state == "finished"
    assert (batch.summary[0].count, batch.summary[0].scored, batch.summary[0].errors) == (4, 3, {"exception": 1})


def test_a_batch_of_a_file_and_several_graders(client: Client, contains: str, tmp_path: Path) -> None:
    client.graders.create.function(key=f"{contains}-2", fn="async def grade(thread): return 0.5")
    path = tmp_path / "threads.jsonl"
    lines = [json.dumps({"completion": str(n), "metadata": {"answer": "3"}}) for n in range(5)]
    path.write_text("\n".join([*lines[:2], "no thread", *lines[2:]]))

    batch = scored(client, {contains: 2.0, f"{contains}-2": 1.0}, path)

    outcomes = list(batch.outcomes())
    assert [outcome.index for outcome in outcomes] == [n for n in range(6) for _ in range(3)]
    assert [outcome.grader for outcome in outcomes[:3]] == [f"{contains}@1", f"{contains}-2@1", "combined"]
    assert [o.error.kind for o in outcomes if o.error] == ["bad_input"] * 3
    assert list(batch.outcomes(after=3)) == outcomes[12:]
    assert [summary.weight for summary in batch.summary] == [2.0, 1.0]
    assert client.batches.get(batch.id).status == batch.status
    assert batch.id in [each.id for each in client.batches.list()]

    for source in (batch, batch.id):
        again = client.batches.create({f"{contains}-2@1": 1.0}, threads_of=source)
        again.wait(progress=False)
        assert [outcome.score for outcome in again.outcomes()] == [0.5, 0.5, None, 0.5, 0.5, 0.5]
    for both in ({"threads": path, "threads_of": batch}, {}, {"threads_of": batch, "columns": {}}):
        with pytest.raises(TypeError, match="threads_of="):
            client.batches.create(contains, **both)


def test_a_bad_thread_half_way_leaves_no_batch(client: Client, contains: str) -> None:
    before = len(client.batches.list(limit=200))

    threads = ([("user", "x" * 1000)] if n != 5_000 else {"n": float("nan")} for n in range(9_999))
    with pytest.raises(ValueError, match="thread 5000 is no thread"):
        client.batches.create(contains, threads)

    assert len(client.batches.list(limit=200)) == before


def test_a_large_batch_for_a_grader_that_does_not_exist_is_refused_with_its_reason(client: Client) -> None:
    with pytest.raises(NotFound, match="no-such-grader"):
        client.batches.create("no-such-grader", ({"completion": "x" * 10_000} for _ in range(5_000)))


def test_a_grader_that_could_score_nothing_is_warned_of(client: Client, contains: str, tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"prompt": "q", "answer": "4"}\n' * 2)
    said = rf"{contains}@1 scored no thread\. 2 of 2 .*\(2 bad_input\).* or the threads\. The first error: the line"
    with pytest.warns(GraderWarning, match=said):
        scored(client, contains, answers)
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraderWarning)
        answers.write_text('{"completion": "4", "metadata": {"answer": "4"}}\n{"answer": "4"}\n')
        scored(client, contains, answers)


def test_a_warning_without_an_example_ends_no_wait(
    client: Client, contains: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> Iterator[object]:
        raise gradebox.ConnectionFailed("the service has just ended")

    batch = client.batches.create(contains, [{"completion": "4"}])  # without the metadata that the grader needs
    monkeypatch.setattr(type(batch), "outcomes", gone)
    with pytest.warns(GraderWarning, match=rf"{contains}@1 scored no thread\. 1 of 1"):
        assert batch.wait(progress=False) is batch
    assert batch.state == "finished"


def test_a_batch_is_cancelled_and_keeps_what_it_has(client: Client) -> None:
    client.graders.create.function(key="sleeps", fn=SLEEPS)
    quick, slow = StringThread([("assistant", "a")]), StringThread([("assistant", "a")], {"sleep": 0.2})
    batch = client.batches.create("sleeps", [*[quick] * 3_000, *[slow] * 30])

    with pytest.raises(WaitTimeout, match="It goes on"):
        batch.wait(progress=False, timeout=3.0)
    assert batch.cancel().state == "cancelled"
    for ended in (partial(batch.wait, progress=False), batch.rewards):
        with pytest.raises(BatchFailed, match="cancelled"):
            ended()

    assert 0 < len([outcome for outcome in batch.outcomes() if outcome.score == 1.0]) < 3_030
    batch.delete()
    with pytest.raises(NotFound):
        batch.refresh()
    with pytest.raises(NotFound):
        client.batches.delete(batch.id)
    another = client.batches.create("sleeps", [quick])
    client.batches.delete(another.id)
    with pytest.raises(NotFound):
        another.refresh()


def test_the_client_that_awaits_does_the_same(service: Service) -> None:
    async def run() -> tuple[list[float | None], list[float | None], str]:
        async with AsyncClient(service.url, service.key) as client:
            await client.graders.create.function(key="awaited", fn=CONTAINS, threads=[thread("4")])
            scored = await client.score("awaited", [thread("4"), thread("5")])
            batch = await client.batches.create("awaited", [thread("5"), thread("4")])
            await batch.wait(progress=False)
            kept = [outcome.score async for outcome, _ in batch.outcomes(threads=True)]
            assert await batch.rewards() == kept
            return [outcome.score for outcome in scored], kept, batch.state

    assert asyncio.run(run()) == ([1.0, 0.0], [0.0, 1.0], "finished")


def test_put_makes_a_grader_and_gives_it_versions(client: Client) -> None:
    key = f"put-{uuid4().hex[:8]}"

    assert [client.graders.put(key, fn=source).version for source in (SLEEPS, SLEEPS, SLEEPS + "# 2")] == [1, 1, 2]
    client.graders.lock(key)
    with pytest.raises(Conflict, match="locked"):
        client.graders.put(key, fn=SLEEPS)


def test_put_into_an_environment_that_does_not_exist_says_so(client: Client) -> None:
    key = f"put-{uuid4().hex[:8]}"
    for fn in (SLEEPS, exact):
        with pytest.raises(NotFound, match="no environment 'typo'"):
            client.graders.put(key, fn=fn, environment="typo")
        client.graders.put(key, fn=SLEEPS)


SCALE = SimpleNamespace(factor=0.0)


async def scaled(thread: StringThread) -> float:
    return float(SCALE.factor)


def test_an_option_that_graders_do_not_have_is_named(client: Client, contains: str) -> None:
    options: dict[str, Any] = {"fn": SLEEPS, "timeout": 3}
    graders = client.graders
    for call in (partial(graders.put, contains), partial(graders.update, contains), graders.get(contains).update):
        with pytest.raises(TypeError, match=r"timeout= is no option of a grader: pass one of .* timeout_s="):
            call(**options)
    create: Any = client.graders.create
    judge = partial(create.judge, key="k", criterion="Is it polite?", judge_model="m")
    checks = partial(create.checks, key="k", checks=[])
    for make in (judge, checks, partial(create.python, key="k", source=SLEEPS), partial(create, key="k", fn=SLEEPS)):
        with pytest.raises(TypeError, match=r"timeout= is no option of a grader: pass one of .* timeout_s=") as refused:
            make(timeout=3)
        assert "config=" not in str(refused.value)


@pytest.mark.parametrize("graders", [None, 3, [None], [1.5]])
def test_what_is_no_grader_of_a_batch_is_named(client: Client, graders: Any) -> None:
    with pytest.raises(TypeError, match=r"(None|3|1\.5) is no grader: name it, as in 'exact' or 'exact@3'"):
        client.batches.create(graders, [{"completion": "4"}])


def test_put_warns_once_of_a_new_function(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SCALE, "factor", 2.0)
    with pytest.warns(GraderWarning) as warned:
        client.graders.put(f"put-{uuid4().hex[:8]}", fn=scaled)
    assert len([one for one in warned if "SCALE.factor is 2.0 here" in str(one.message)]) == 1


def test_put_keeps_nothing_that_is_not_valid_and_tells_that_alone(client: Client) -> None:
    with pytest.raises(ValidationError) as raised:
        client.graders.put("never", fn="async def grade(thread): raise ValueError")
    assert raised.value.__context__ is None  # it was not there before
    with pytest.raises(NotFound):
        client.graders.get("never")


def test_rewards_of_graders_with_weights(client: Client, contains: str) -> None:
    rows = [{"question": "2+2?", "said": "4" * number, "answer": "4"} for number in range(3)]
    length = client.graders.put("length", fn="async def grade(thread): return len(thread.completion())")
    assert [outcome.score for outcome in length.score([thread("four")])] == [4.0]

    columns = {"question": "prompt", "said": "completion"}
    batch = client.batches.create({contains: 10, "length": 0.5}, rows, columns=columns)

    assert batch.rewards() == [0.0, 10.5, 11.0]
    assert [outcome.score for outcome in batch.outcomes() if outcome.grader == "combined"] == batch.rewards()
    assert batch.refresh(combined=True).combined == batch.combined
    assert (batch.combined.mean, "combined" in batch._repr_html_()) == (21.5 / 3, True)
    for graders, weighted in ({contains: 1, "length": 1}, True), ({contains: 1}, False), ([contains, "length"], False):
        again = client.batches.create(graders, threads_of=batch)
        assert (again.weighted, client.batches.create(graders, rows, columns=columns).weighted) == (weighted, weighted)
    outcomes = client.score(contains, rows, columns=columns)
    assert [outcome.score for outcome in outcomes] == [0.0, 1.0, 1.0]


def test_a_handle_stands_for_its_version_where_names_do(client: Client, contains: str) -> None:
    handle = client.graders.get(contains)
    client.graders.update(contains, fn="async def grade(thread): return 7.0")
    threads = [thread("4")]

    assert client.batches.create(handle, threads).rewards() == [1.0]
    assert client.batches.create([handle], threads).rewards() == [1.0]
    assert client.score(handle, threads)[0].grader == f"{contains}@1"
    assert client.reward([handle]).score(threads)[0].score == 1.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"key": "HasAnswer"}, "the key 'HasAnswer' is not valid: write 1 to 64 of a-z 0-9 . _ -"),
        ({"key": "k\n"}, "is not valid"),
        ({"key": None}, "the key None is not valid"),
        ({"isolation": "process"}, "isolation='process' is none of 'auto', 'batch', 'completion'"),
        ({"fn": "grader.py"}, r"'grader.py' is a path and no source: .* Path\('grader.py'\).read_text"),
    ],
)
def test_what_no_grader_can_have_is_said_in_words(client: Client, arguments: dict[str, Any], said: str) -> None:
    wanted: dict[str, Any] = {"key": "k", "fn": SLEEPS} | arguments
    with pytest.raises(gradebox.GradeboxError, match=said):
        client.graders.create.function(**wanted)


def test_outcomes_stand_with_their_threads(client: Client, contains: str) -> None:
    client.graders.put("length", fn="async def grade(thread): return len(thread.completion())")
    threads = [{"completion": str(number), "metadata": {"answer": "4"}, "id": number} for number in range(3000)]
    batch = scored(client, [contains, "length"], threads)
    pairs = list(batch.outcomes(threads=True))
    assert len(pairs) == 6000
    assert all(outcome.id == thread["id"] == outcome.index for outcome, thread in pairs)
    assert list(client.batches.get(batch.id).outcomes(after=2990, threads=True)) == pairs[-18:]


def test_a_line_that_is_no_thread_stands_as_it_was_sent(client: Client, contains: str, tmp_path: Path) -> None:
    (tmp_path / "threads.jsonl").write_bytes(b'{"completion": "4"}\nno thread\n{"completion": "\xff"}')
    batch = scored(client, contains, tmp_path / "threads.jsonl")
    sent = [thread for _, thread in batch.outcomes(threads=True)]
    assert sent == [{"completion": "4"}, "no thread", '{"completion": "\ufffd"}']


def test_what_a_notebook_shows(client: Client, contains: str) -> None:
    batch = scored(client, contains, [thread("4")])
    assert "finished, 1 of 1 outcomes" in batch._repr_html_()
    assert contains in client.graders.list()._repr_html_()
    assert repr(client.graders.get(contains)) == (
        f"<GraderHandle {contains}@1 of project default, function, batch isolation: looks for the answer>"
    )
    assert contains in client.score(contains, [thread("4")])._repr_html_()


def test_waiting_again_sees_that_somebody_has_it_scored_again(client: Client, contains: str) -> None:
    batch = scored(client, contains, [thread("4")] * 3)
    batch.refresh(bootstrap=True)
    bootstrapped = batch.status
    batch.wait(progress=False)
    assert batch.status == bootstrapped
    batch.status = batch.status.model_copy(update={"done": 1, "finished_at": batch.created_at})  # of an earlier end
    batch.wait(progress=False)
    assert batch.done == 3


def test_a_record_that_is_refused_late_says_what_is_recorded(client: Client, contains: str, service: Service) -> None:
    client.graders.create.custom(key="late-labels")
    batch = scored(client, contains, [{"completion": "4"}] * 20_001)
    scores = dict.fromkeys(range(20_000), 1.0) | {30_000: 1.0}
    with pytest.raises(ApiError, match=r"line 1: .*nothing of this request was recorded") as refused:
        batch.record("late-labels", scores, by="index")
    said = "begins at score 20,001, and lines count from there: the 20,000 scores before it are recorded"
    assert said in refused.value.__notes__[0]
    lines = b"".join(b'{"index": %d, "score": 0}\n' % number for number in scores)
    done = service.refused("batches", "record", batch.id, "-", "--grader", "late-labels", stdin=lines)
    assert said in done.replace("\n", " ")


def test_batches_of_a_list_have_all_that_a_new_one_has(client: Client, contains: str) -> None:
    made = scored(client, contains, [thread("4")])
    found = client.batches.list(1)[0]
    assert (found.id, found.done, found.threads, found.project) == (made.id, 1, 1, "default")
    assert [outcome.score for outcome in found.outcomes()] == [1.0]
    assert pickle.loads(pickle.dumps(found)).rewards() == [1.0]
    with pytest.raises(AttributeError):
        found.scores  # noqa: B018  # there is none


def test_a_key_that_was_found_is_said_to_be_found(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "api-key").write_text("gbx_0123456789ab_" + "x" * 43)
    monkeypatch.setenv("GRADEBOX_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("GRADEBOX_API_KEY", raising=False)
    with pytest.raises(NotAllowed, match=f"unknown or revoked.*found in {tmp_path}/api-key: name the right one"):
        Client(service.url).graders.list()


def test_batches_are_compared_and_a_grader_with_labels(client: Client, service: Service, contains: str) -> None:
    # For the interval of unequal differences, each statistic would import SciPy for a second.
    labels: list[dict[str, object]] = [{"good": 1}, {"good": 0}, {}, {}]
    threads = [{"id": n, "completion": said, "metadata": {"answer": "4", **labels[n]}} for n, said in enumerate("4545")]
    a, b = scored(client, contains, threads), scored(client, contains, [{**threads[2], "completion": "five"}])

    compared = client.compare(a, b.id)
    assert (compared.pairs, compared.only_a, compared.flipped_down) == (1, 3, 1)
    assert [(flip.id, flip.score_a, flip.score_b) for flip in compared.flips] == [(2, 1.0, 0.0)]
    assert "1 of 1 pairs" in compared._repr_html_()
    assert repr(compared).startswith("<Comparison 1 of 1 pairs: difference ")
    of_text = scored(client, contains, [{**thread, "id": str(thread["id"])} for thread in threads])
    with pytest.warns(GraderWarning, match=r"id is a number in one batch and text in the other: 4\."):
        assert client.compare(a, of_text).pairs == 0
    agreed = client.agreement(a, contains, "metadata.good")
    assert (agreed.only_grader, agreed.kappa, agreed.confusion) == (2, 1.0, [[1, 0], [0, 1]])
    assert "kappa 1.000" in agreed._repr_html_()
    assert repr(agreed).startswith("<Agreement ")
    with pytest.warns(GraderWarning, match=r"metadata\.better is in no thread; they have answer, good"):
        assert client.agreement(a, contains, "metadata.better").scored == 0

    human = f"human-{uuid4().hex[:8]}"
    assert client.graders.create.custom(key=human).kind == "custom"
    assert a.record(human, {0: 1, 2: Score(0, reason="no")}).recorded[0].count == 2
    of_people = [(one.id, one.score, one.reason) for one in a.outcomes() if one.grader == f"{human}@1"]
    assert of_people == [(0, 1.0, None), (2, 0.0, "no")]
    assert len(a.rewards()) == 4
    assert len(a.to_pandas()) == 6
    assert human in a._repr_html_()
    with pytest.raises(ApiError, match="no thread with the id 'x': "):
        a.record(human, {"x": 1})
    with pytest.raises(ApiError, match=r"no thread with the id '2' \(the number 1 and the text \"1\" are two ids\)"):
        a.record(human, {"2": 1})

    async def in_a_loop() -> tuple[float | None, float | None]:
        async with AsyncClient(service.url, service.key) as other:
            batch = await other.batches.get(a.id)
            assert (await batch.record(human, {3: 0.5}, by="index")).recorded[0].count == 3
            first = await other.compare(batch, b.id, contains, threshold=0.5, limit=0)
            second = await other.agreement(batch, contains, "metadata.good", threshold=2.0)
            return first.difference, second.kappa

    assert asyncio.run(in_a_loop()) == (compared.difference, None)
    with pytest.raises(NotFound):
        client.compare(a, "0" * 20)


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_a_reward_has_finite_weights(client: Client, weight: float) -> None:
    with pytest.raises(ValueError, match="finite number"):
        client.reward({"any": weight})
