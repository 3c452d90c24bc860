from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.api.conftest import PROJECT, Service, create, problem

LINE = b'{"turns": [["assistant", "4"]]}\n'
LINES = {"Content-Type": "application/x-ndjson"}


@contextmanager
def keyed(client: httpx.Client, service: Service, role: str, project: str = "default") -> Iterator[httpx.Client]:
    """A client with a new key of this role."""
    key = client.post("/v1/keys", json={"name": role, "projects": [project], "role": role}).json()
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {key['secret']}"}) as narrow:
        yield narrow


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer gbx_1_2", "Basic Zm9v"])
def test_without_a_good_key_nothing_is_answered(service: Service, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    response = httpx.get(f"{service.url}{PROJECT}/graders", headers=headers)
    problem(response, 401, "unauthorized")
    assert response.headers["www-authenticate"] == "Bearer"


def test_what_is_not_yours_answers_as_what_is_not_there(service: Service, client: httpx.Client) -> None:
    client.post("/v1/projects", json={"key": "other"}).raise_for_status()
    secret = client.post("/v1/keys", json={"name": "narrow", "projects": ["other"]}).json()["secret"]
    create(client)
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {secret}"}) as narrow:
        assert narrow.get("/v1/projects/other/graders").json() == []
        hidden = problem(narrow.get(f"{PROJECT}/graders/exact"), 404, "not-found")
        missing = problem(narrow.get("/v1/projects/nowhere/graders/exact"), 404, "not-found")
        assert hidden.replace("default", "nowhere") == missing
        assert [project["key"] for project in narrow.get("/v1/projects").json()] == ["other"]


def test_only_a_key_for_everything_manages_keys(service: Service, client: httpx.Client) -> None:
    secret = client.post("/v1/keys", json={"name": "narrow", "projects": ["default"]}).json()["secret"]
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {secret}"}) as narrow:
        problem(narrow.get("/v1/keys"), 403, "forbidden")
        problem(narrow.post("/v1/keys", json={"name": "mine", "projects": ["*"]}), 403, "forbidden")
        problem(narrow.delete("/v1/keys/any"), 403, "forbidden")
        problem(narrow.post("/v1/projects", json={"key": "mine"}), 403, "forbidden")


def test_a_key_for_everything_needs_the_role_too(client: httpx.Client, service: Service) -> None:
    for role in ("read", "score"):
        with keyed(client, service, role, "*") as narrow:
            assert "'manage' for every project" in problem(narrow.get("/v1/keys"), 403, "forbidden")
            problem(narrow.post("/v1/projects", json={"key": "mine"}), 403, "forbidden")
            assert narrow.get("/v1/projects").status_code == 200


def test_a_key_that_only_reads(client: httpx.Client, service: Service) -> None:
    create(client)
    batch = client.post(f"{PROJECT}/batches?grader=exact", content=LINE, headers=LINES).json()["id"]
    with keyed(client, service, "read") as reader:
        assert reader.get(f"{PROJECT}/graders/exact").status_code == 200
        assert reader.get(f"{PROJECT}/batches/{batch}").json()["id"] == batch
        refused = [
            reader.post(f"{PROJECT}/validate", json={"source": ""}),
            reader.post(f"{PROJECT}/graders/exact/score", json={"threads": []}),
            reader.post(f"{PROJECT}/batches?grader=exact", content=LINE, headers=LINES),
            reader.post(f"{PROJECT}/batches/{batch}/cancel"),
        ]
    for response in refused:
        assert "role 'score'" in problem(response, 403, "forbidden")


def test_a_key_that_scores_changes_no_graders(client: httpx.Client, service: Service) -> None:
    create(client)
    with keyed(client, service, "score") as scorer:
        made = scorer.post(f"{PROJECT}/batches?grader=exact", content=LINE, headers=LINES)
        assert made.status_code == 202
        refused = [
            scorer.post(f"{PROJECT}/graders", json={"key": "mine", "source": ""}),
            scorer.put(f"{PROJECT}/graders/exact", json={"source": ""}),
            scorer.patch(f"{PROJECT}/graders/exact", json={"locked": True}),
            scorer.delete(f"{PROJECT}/graders/exact"),
            scorer.delete(f"{PROJECT}/batches/{made.json()['id']}"),
        ]
    for response in refused:
        assert "role 'manage'" in problem(response, 403, "forbidden")


def test_a_key_that_scores_cancels_its_own_batches_alone(client: httpx.Client, service: Service) -> None:
    create(client)
    another = client.post(f"{PROJECT}/batches?grader=exact", content=LINE, headers=LINES).json()
    with keyed(client, service, "score") as scorer:
        own = scorer.post(f"{PROJECT}/batches?grader=exact", content=LINE, headers=LINES).json()
        assert scorer.post(f"{PROJECT}/batches/{own['id']}/cancel").json()["state"] == "cancelled"
        assert "'manage'" in problem(scorer.post(f"{PROJECT}/batches/{another['id']}/cancel"), 403, "forbidden")
    assert client.post(f"{PROJECT}/batches/{another['id']}/cancel").json()["state"] == "cancelled"
    assert own["created_by"] != another["created_by"]


def test_the_role_shows_nothing_of_other_projects(client: httpx.Client, service: Service) -> None:
    client.post("/v1/projects", json={"key": "other"}).raise_for_status()
    with keyed(client, service, "read", "other") as narrow:
        problem(narrow.delete(f"{PROJECT}/graders/exact"), 404, "not-found")


def test_a_revoked_key_is_refused(service: Service, client: httpx.Client) -> None:
    key = client.post("/v1/keys", json={"name": "short", "projects": ["default"]}).json()
    headers = {"Authorization": f"Bearer {key['secret']}"}
    assert httpx.get(f"{service.url}{PROJECT}/graders", headers=headers).status_code == 200
    assert client.delete(f"/v1/keys/{key['id']}").status_code == 204
    problem(httpx.get(f"{service.url}{PROJECT}/graders", headers=headers), 401, "unauthorized")
