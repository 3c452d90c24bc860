import json
from pathlib import Path

import httpx
import pytest

import gradebox
from storage.spool import lost_files
from tests.api.conftest import PROJECT, Service, answer_of, create, problem
from tests.api.routes.conftest import scored

pytestmark = [pytest.mark.sandbox, pytest.mark.usefixtures("worker")]
URL = f"{PROJECT}/batches"
UNEVEN = """
from gradebox import Score
async def grade(thread):
    said = thread.completion()
    return Score(float(said), reason=f"it says {said}")
"""


@pytest.fixture
def batch(client: httpx.Client) -> str:
    """A batch of 12 threads and two graders. One grader fails if the completion is no number."""
    create(client)
    create(client, "number", UNEVEN.replace("float(said)", "float(said) if said else 0.0"))
    said = ["0.5", "x", "1", "0", "y y", "0.25", "0.75", "1", "z", "0.1", "0.2", "2"]
    threads = [{"id": f"t{number}", "completion": each} for number, each in enumerate(said)]
    return scored(client, ["number", "exact"], threads)


def test_a_page_is_sorted_and_filtered_and_says_how_many_match(client: httpx.Client, batch: str) -> None:
    url = f"{URL}/{batch}/table"
    found = answer_of(client.get(url, params={"grader": "number", "sort": "-score", "low": 0.2, "limit": 3, "page": 2}))
    rows = found.pop("rows")
    page = {"total": 7, "page": 2, "limit": 3, "sort": "-score", "searched": None, "is_cut": False, "is_over": True}
    assert found == {"batch": batch, "grader": "number@1", **page}
    shown = [(row["index"], row["id"], row["score"]) for row in rows]
    assert shown == [(6, "t6", 0.75), (0, "t0", 0.5), (5, "t5", 0.25)]
    assert (rows[0]["completion"], rows[0]["reason"]) == ("0.75", "it says 0.75")
    failed = client.get(url, params={"grader": "number@1", "kind": "exception"}).json()
    assert [row["index"] for row in failed["rows"]] == [1, 4, 8]
    assert "could not convert string to float" in failed["rows"][0]["error"]["message"]
    assert client.get(url, params={"grader": "exact"}).json()["total"] == 12
    text = client.get(url, params={"grader": "number", "text": "SAYS 0.2"}).json()
    assert ([row["index"] for row in text["rows"]], text["searched"], text["is_cut"]) == ([5, 10], 12, False)


def test_errors_are_told_in_groups_with_their_line(client: httpx.Client, batch: str) -> None:
    found = client.get(f"{URL}/{batch}/errors", params={"grader": "number"}).json()
    assert (found["grader"], found["total"]) == ("number@1", 3)
    (kind,) = found["kinds"]
    (group,) = kind["groups"]
    assert (kind["kind"], kind["count"], kind["others"]) == ("exception", 3, 0)
    assert group["message"].startswith("ValueError: could not convert string to float: '…'")
    assert (group["count"], group["indices"], group["line"]) == (3, [1, 4, 8], 5)
    assert client.get(f"{URL}/{batch}/errors", params={"grader": "exact"}).json()["kinds"] == []


def test_scores_that_were_recorded_have_no_table(client: httpx.Client, batch: str) -> None:
    assert client.post(f"{PROJECT}/graders", json={"key": "people", "kind": "custom"}).status_code == 201
    lines = b'{"index": 3, "score": 1}\n{"index": 5, "score": 0}\n'
    headers = {"Content-Type": "application/x-ndjson"}
    answer_of(client.put(f"{URL}/{batch}/scores", params={"grader": "people"}, content=lines, headers=headers))
    answer = client.get(f"{URL}/{batch}/table", params={"grader": "people"})
    assert "scores of people@1 were recorded" in problem(answer, 422, "invalid-request")
    assert client.get(f"{URL}/{batch}/table", params={"grader": "number"}).json()["total"] == 12
    some = client.get(f"{URL}/{batch}/outcomes", params={"after": 2, "limit": 2}).text.splitlines()
    found = [(one["index"], one["grader"]) for one in map(json.loads, some)]
    assert found == [(3, "number@1"), (3, "exact@1"), (3, "people@1"), (4, "number@1"), (4, "exact@1")]


def test_what_is_no_page_says_why(client: httpx.Client, batch: str) -> None:
    url = f"{URL}/{batch}/table"
    assert "name one of its graders" in problem(client.get(url), 422, "invalid-request")
    bad = {"kind": "bad", "sort": "x", "limit": "201", "page": "0", "bin": "10", "low": "nan", "text": "", "after": "1"}
    for name, value in bad.items():
        detail = problem(client.get(url, params={"grader": "exact", name: value}), 422, "invalid-request")
        assert name in detail
    problem(client.get(f"{URL}/{'0' * 20}/table"), 404, "not-found")


def test_a_batch_that_runs_has_no_index_yet(client: httpx.Client) -> None:
    create(client, "slow", "import time\nasync def grade(thread):\n    time.sleep(2)\n    return 1.0\n")
    threads = [{"completion": "4"}] * 4
    batch = client.post(URL, json={"graders": [{"key": "slow"}], "threads": threads}).json()["id"]
    url = f"{URL}/{batch}/table"
    so_far = client.get(url).json()
    assert (so_far["total"], so_far["is_over"], so_far["rows"]) == (0, False, [])
    for wanted in ({"sort": "score"}, {"kind": "error"}, {"low": 0.5}, {"text": "4"}):
        assert "once it is over" in problem(client.get(url, params=wanted), 409, "conflict")
    for path in (f"{URL}/{batch}/errors", f"{PROJECT}/compare?a={batch}&b={batch}"):
        assert "once it is over" in problem(client.get(path), 409, "conflict")
    assert client.post(f"{URL}/{batch}/cancel").status_code == 200
    over = client.get(url, params={"sort": "score"}).json()
    assert (over["total"], over["is_over"]) == (0, True)


def test_threads_are_picked_by_their_indices_or_so_many_behind_one(client: httpx.Client, batch: str) -> None:
    url = f"{URL}/{batch}/threads"
    answer = client.get(url, params={"index": [11, 0, 11]})
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line)["id"] for line in answer.text.splitlines()] == ["t11", "t0", "t11"]
    missing = problem(client.get(url, params={"index": [2, 12]}), 422, "invalid-request")
    assert "has no thread 12: its 12 threads are 0 to 11" in missing
    assert "index" in problem(client.get(url, params={"index": [0] * 51}), 422, "invalid-request")
    assert "index" in problem(client.get(url, params={"index": -1}), 422, "invalid-request")
    threads = client.get(url, params={"after": 3, "limit": 2}).text.splitlines()
    assert [json.loads(line)["id"] for line in threads] == ["t4", "t5"]
    problem(client.get(f"{URL}/{batch}/outcomes", params={"limit": 0}), 422, "invalid-request")
    assert "leave `after`" in problem(client.get(url, params={"index": 1, "limit": 1}), 422, "invalid-request")


def test_a_client_reads_pages_groups_and_threads(service: Service, secret: str, batch: str) -> None:
    with gradebox.Client(service.url, secret) as asking:
        handle = asking.batches.get(batch)
        page = handle.table("number", sort="-score", low=0.5, limit=2)
        assert (page.total, [row.score for row in page.rows]) == (5, [2.0, 1.0])
        assert handle.table("number", bin=9).total == 1
        assert handle.table("number", kind="exception", text="'z'").rows[0].completion == "z"
        assert handle.error_groups("number").kinds[0].groups[0].count == 3
        assert [thread["id"] for thread in handle.threads_at([3, 1])] == ["t3", "t1"]
        assert handle.threads_at([]) == []
        assert [one.index for one in handle.outcomes(after=1, limit=2)] == [2, 2, 3, 3]
        pairs = handle.outcomes(threads=True, limit=1)
        assert [(one.index, thread["id"]) for one, thread in pairs] == [(0, "t0")] * 2
        with pytest.raises(gradebox.GradeboxError, match="its 12 threads"):
            handle.threads_at([99])


def test_threads_that_are_gone_are_no_fault_of_the_service(service: Service, client: httpx.Client, batch: str) -> None:
    spool = service.store.spool
    spool.files.system.rm_file(spool._payload(batch))
    for path in ("table?grader=number", "errors?grader=number", "agreement?grader=number&label=exact", "threads"):
        answer = client.get(f"{URL}/{batch}/{path}")
        assert f"the payload of batch {batch} is gone" in problem(answer, 404, "not-found"), path
    assert spool.indexes(batch) == []


def test_a_page_of_threads_that_are_gone_or_cut_off_is_not_shown_without_their_completions(
    service: Service, client: httpx.Client, batch: str
) -> None:
    url, page = f"{URL}/{batch}/table", {"grader": "number", "sort": "-score"}
    assert client.get(url, params=page).json()["total"] == 12  # the index exists
    payload = Path(service.store.spool._payload(batch))
    payload.write_bytes(payload.read_bytes()[:-20])
    assert "is cut off in the spool" in problem(client.get(url, params=page), 404, "not-found")
    payload.unlink()
    assert "is gone from the spool" in problem(client.get(url, params=page), 404, "not-found")


@pytest.mark.parametrize(("is_gone", "has_index"), [(True, False), (False, True)])
def test_outcomes_that_are_lost_are_an_error_that_stays(
    service: Service, client: httpx.Client, batch: str, monkeypatch: pytest.MonkeyPatch, is_gone: bool, has_index: bool
) -> None:
    url = f"{URL}/{batch}/table?grader=number"
    if has_index:
        assert client.get(url).json()["total"] == 12
    path = Path(service.store.spool._outcomes(batch, 0, 1))
    if is_gone:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-20])
    problem(client.get(url), 503, "unavailable")  # the batch has just ended
    monkeypatch.setattr(lost_files, "SETTLED_S", 0.0)
    assert "score its threads again" in problem(client.get(url), 410, "outcomes-lost")
    if not has_index:
        agreement = client.get(f"{URL}/{batch}/agreement?grader=number&label=exact")
        assert "score its threads again" in problem(agreement, 410, "outcomes-lost")
