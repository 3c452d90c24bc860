import json
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from msgspec.structs import replace

from sandbox.environments import PYTHON
from storage.access.quotas import Quotas
from storage.graders.grader_content import Proved
from tests.api.conftest import GOOD, PROJECT, Service, answer_of, create, problem
from tests.storage.making import proved

pytestmark = pytest.mark.sandbox
URL = f"{PROJECT}/graders"


def test_a_grader_goes_up_and_reads_back(client: httpx.Client) -> None:
    body = {"key": "exact", "source": GOOD, "name": "Exact", "description": "as said", "timeout_s": 2, "memory_mb": 128}
    grader = answer_of(client.post(URL, json=body), 201)
    assert (grader["version"], grader["timeout_s"], grader["memory_mb"], grader["locked"]) == (1, 2.0, 128, False)
    assert client.get(f"{URL}/exact").json() == grader
    assert client.get(URL).json() == [grader]
    version = client.get(f"{URL}/exact/versions/1").json()
    assert (version["source"], version["isolation_asked"], version["sha256"]) == (GOOD, "auto", grader["sha256"])
    assert version["python"] == PYTHON


def test_a_file_may_be_sent_with_a_query_or_in_a_form(client: httpx.Client) -> None:
    headers = {"Content-Type": "text/x-python"}
    assert client.post(f"{URL}?key=a&timeout_s=3", content=GOOD, headers=headers).json()["timeout_s"] == 3
    form = client.post(URL, files={"file": ("g.py", GOOD)}, data={"key": "b", "memory_mb": "64"}).json()
    assert form["memory_mb"] == 64
    assert "key" in problem(client.post(URL, content=GOOD, headers=headers), 422, "invalid-request")


def test_nothing_is_kept_of_a_source_that_fails(client: httpx.Client) -> None:
    for source, failed in (("def grade(): pass", "structure"), ("x = 1\0", "syntax")):
        response = client.post(URL, json={"key": "bad", "source": source})
        assert "Nothing was saved" in problem(response, 422, "validation-failed")
        report = response.json()["report"]
        assert not report["valid"]
        assert (report["checks"][-1]["name"], report["checks"][-1]["passed"]) == (failed, False)
    assert client.get(URL).json() == []


def test_an_update_makes_a_version_unless_nothing_changed(client: httpx.Client) -> None:
    client.post(URL, json={"key": "exact", "source": GOOD, "timeout_s": 2}).raise_for_status()
    assert client.put(f"{URL}/exact", json={"source": GOOD}).json()["version"] == 1
    updated = client.put(f"{URL}/exact", json={"source": "# new\n" + GOOD, "name": "New"}).json()
    assert (updated["version"], updated["timeout_s"], updated["name"]) == (2, 2.0, "New")
    assert client.put(f"{URL}/exact", json={"timeout_s": 9}).json()["version"] == 3
    assert [version["number"] for version in client.get(f"{URL}/exact/versions").json()] == [1, 2, 3]


def test_a_locked_grader_is_neither_changed_nor_deleted(client: httpx.Client) -> None:
    create(client)
    assert client.patch(f"{URL}/exact", json={"locked": True}).json()["locked"]
    problem(client.put(f"{URL}/exact", json={"source": "# new\n" + GOOD}), 409, "locked")
    problem(client.delete(f"{URL}/exact"), 409, "locked")
    assert "unlock it" in problem(client.patch(f"{URL}/exact", json={"name": "new"}), 409, "locked")
    client.patch(f"{URL}/exact", json={"locked": False, "description": "now"}).raise_for_status()
    assert client.delete(f"{URL}/exact").status_code == 204
    problem(client.get(f"{URL}/exact"), 404, "not-found")


@pytest.mark.parametrize("path", ["nothing", "nothing/versions", "exact/versions/7", "a:b", "%00", "x" * 500])
def test_what_is_not_there(client: httpx.Client, path: str) -> None:
    create(client)
    problem(client.get(f"{URL}/{path}"), 404, "not-found")
    if "/" not in path:
        assert client.delete(f"{URL}/{path}").status_code == 404


@pytest.mark.parametrize("key", ["", "-a", "A", "a b", "a/b", "é", "x" * 65, "x\n"])
def test_a_key_that_cannot_be_is_told_what_keys_may_have(client: httpx.Client, key: str) -> None:
    response = client.post(URL, json={"key": key, "source": GOOD})
    assert "1 to 64 of a-z 0-9 . _ - with a letter or digit first" in problem(response, 422, "invalid-request")


SMILE, HALF = r"\ud83d\ude00", r"\ud83d"


def sent_with_half_a_pair(name: str) -> bytes:
    source = "async def grade(thread):\\n    return 1.0\\n"
    thread = f'{{"completion": "{HALF}"}}'
    texts = f'"key": "n", "name": "{name}", "description": "{SMILE} {SMILE}"'
    return f'{{{texts}, "source": "{source}", "threads": [{thread}]}}'.encode()


def test_a_name_is_kept_whatever_stands_beside_it(client: httpx.Client) -> None:
    headers = {"Content-Type": "application/json"}
    made = client.post(f"{PROJECT}/graders", content=sent_with_half_a_pair(f"{SMILE} smile"), headers=headers).json()
    assert (made["name"], made["description"]) == ("\U0001f600 smile", "\U0001f600 \U0001f600")
    refused = client.post(f"{PROJECT}/graders", content=sent_with_half_a_pair(f"{HALF} smile"), headers=headers)
    assert "name holds half a surrogate pair" in problem(refused, 422, "invalid-request")
    changes = f'{{"name": "{HALF} smile"}}'.encode()
    refused = client.patch(f"{PROJECT}/graders/n", content=changes, headers=headers)
    assert "it holds half a surrogate pair" in problem(refused, 422, "invalid-request")


def test_a_used_up_quota_is_named(client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.store.graders, "_quotas", Quotas(graders=1))
    create(client)
    response = client.post(f"{PROJECT}/graders", json={"key": "another", "source": GOOD})
    assert "GRADEBOX_PROJECT_GRADERS" in problem(response, 429, "quota-exceeded")


def test_a_version_follows_the_one_that_is_named(client: httpx.Client) -> None:
    create(client)
    changed = {"source": GOOD + "# changed\n"}
    assert client.put(f"{URL}/exact", json=changed, headers={"If-Match": '"1"'}).json()["version"] == 2
    again = {"source": GOOD + "# changed once more\n"}
    said = problem(client.put(f"{URL}/exact", json=again, headers={"If-Match": "1"}), 412, "version-changed")
    assert "is at version 2, and this was to follow version 1" in said
    assert client.get(f"{URL}/exact").json()["version"] == 2
    assert client.put(f"{URL}/exact", json=again, headers={"If-Match": "*"}).json()["version"] == 3
    for wrong in ("x", "0", "1, 2", "9" * 30):
        refused = client.put(f"{URL}/exact", json=again, headers={"If-Match": wrong})
        assert "number of the version" in problem(refused, 422, "invalid-request")
    repeated = {"If-Match": "3", "Idempotency-Key": "once"}
    last = {"source": GOOD}
    assert {client.put(f"{URL}/exact", json=last, headers=repeated).json()["version"] for _ in range(2)} == {4}


def test_of_puts_that_create_a_grader_at_once_none_is_refused(client: httpx.Client) -> None:
    def put(_: int) -> httpx.Response:
        return client.put(
            f"{URL}/both", json={"source": f"import time\ntime.sleep(0.3)\n{GOOD}"}, params={"create": True}
        )

    with ThreadPoolExecutor() as pool:
        assert [answer_of(made)["version"] for made in pool.map(put, range(2))] == [1, 1]


def test_a_put_may_create_a_grader(client: httpx.Client) -> None:
    sent = {"source": GOOD, "name": "Exact", "timeout_s": 3.0}
    assert problem(client.put(f"{URL}/exact", json=sent), 404, "not-found")
    made = client.put(f"{URL}/exact", json=sent, params={"create": True}).json()
    assert (made["key"], made["version"], made["name"], made["timeout_s"]) == ("exact", 1, "Exact", 3.0)
    changed = sent | {"source": GOOD + "# changed\n"}
    assert client.put(f"{URL}/exact", json=changed, params={"create": True}).json()["version"] == 2
    python = {"Content-Type": "text/x-python"}
    made = client.put(f"{URL}/file", params={"create": True, "timeout_s": 2}, content=GOOD, headers=python).json()
    assert (made["key"], made["timeout_s"]) == ("file", 2.0)
    for key, more in (("Bad", {}), ("none", {"source": None})):
        refused = client.put(f"{URL}/{key}", json=sent | more, params={"create": True})
        assert refused.status_code == (422 if key == "Bad" else 404), refused.text
    lacking = changed | {"environment": "none"}
    assert "environment" in problem(client.put(f"{URL}/exact", json=lacking, params={"create": True}), 404, "not-found")
    for version in ("1", "*"):
        late = client.put(f"{URL}/late", json=sent, params={"create": True}, headers={"If-Match": version})
        assert "leave out If-Match" in problem(late, 412, "version-changed")
    assert problem(client.put(f"{URL}/late", json=sent, headers={"If-Match": "1"}), 404, "not-found")


def test_many_versions_come_in_pages(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.graders.graders.PAGE_BYTES", 1)
    monkeypatch.setattr("storage.graders.graders._AT_ONCE", 1)
    create(client)
    client.put(f"{PROJECT}/graders/exact", json={"source": f"{GOOD}\n# 2"}).raise_for_status()
    url = f"{PROJECT}/graders/exact/versions"
    first = client.get(url)
    assert [version["number"] for version in first.json()] == [1]
    following = client.get(url, params={"after": 1})
    assert first.links["next"]["url"] == "?after=1"
    assert [version["number"] for version in following.json()] == [2]
    assert "Link" not in following.headers


_READS = "async def grade(thread):\n    return float(thread.metadata['answer'] == thread.completion())\n"


def test_test_threads_stay_with_the_grader_and_prove_what_comes_later_or_is_validated(client: httpx.Client) -> None:
    threads = [{"completion": "4", "metadata": {"answer": "4"}}, {"completion": "5", "metadata": {"answer": "4"}}]
    body = {"key": "reads", "source": _READS, "threads": threads}
    assert client.post(URL, json=body).json()["test_threads"] == 2
    kept = client.get(f"{URL}/reads/threads")
    assert kept.headers["Content-Type"] == "application/x-ndjson"
    assert [json.loads(line) for line in kept.text.splitlines()] == threads
    updated = client.put(f"{URL}/reads", json={"source": f"# new\n{_READS}"})
    assert (updated.json()["version"], updated.json()["test_threads"]) == (2, 2)
    headers = {"Content-Type": "text/x-python"}
    assert client.put(f"{URL}/reads", content=f"# again\n{_READS}", headers=headers).json()["version"] == 3
    assert client.put(f"{URL}/reads", json={"source": _READS, "threads": threads[:1]}).json()["test_threads"] == 1
    refused = client.put(f"{URL}/reads", json={"source": _READS, "threads": [{"completion": "4"}]})
    problem(refused, 422, "validation-failed")
    kept = client.get(f"{URL}/reads").json()
    assert (kept["version"], kept["test_threads"]) == (4, 1)
    validate = f"{PROJECT}/validate"
    assert not client.post(validate, json={"source": _READS}).json()["valid"]
    report = client.post(validate, json={"source": _READS, "grader": "reads"}).json()
    assert (report["valid"], [outcome["score"] for outcome in report["outcomes"]]) == (True, [1.0])
    problem(client.post(validate, json={"source": _READS, "grader": "other"}), 404, "not-found")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (replace(proved(GOOD), threads=[b'{"completion": "5"}']), "other test threads were stored with grader 'exact'"),
        (proved(GOOD, timeout_s=3.0), "the timeout_s of grader 'exact' was changed"),
        (proved(GOOD + "# theirs\n"), '"version":3'),
    ],
    ids=["threads", "timeout_s", "source"],
)
def test_changes_in_a_proof_were_not_proved(client: httpx.Client, service: Service, change: Proved, said: str) -> None:
    create(client)
    slow = {"source": f"# {said}\nimport time\n\ntime.sleep(0.4)\n" + GOOD}
    with ThreadPoolExecutor(1) as threads:
        sent = threads.submit(client.put, f"{URL}/exact", json=slow)
        time.sleep(0.2)
        theirs = service.store.graders.update("default", "exact", change)
        assert not sent.done(), sent.result().text
    answer = sent.result()
    if theirs.version == 2 and theirs.timeout_s == 5.0:  # the source was sent, so the last one counts
        assert said in answer.text
    else:
        assert said in problem(answer, 409, "conflict")
        assert client.get(f"{URL}/exact").json()["version"] == theirs.version
        assert client.put(f"{URL}/exact", json=slow).json()["version"] == theirs.version + 1
