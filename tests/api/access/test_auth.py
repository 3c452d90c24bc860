import httpx
import pytest

from tests.api.conftest import PROJECT, Service, create, problem

LINE = b'{"turns": [["assistant", "4"]]}\n'
LINES = {"Content-Type": "application/x-ndjson"}


def keyed(client: httpx.Client, service: Service, role: str, project: str = "default") -> httpx.Client:
    """A client with a new key of this role."""
    key = client.post("/v1/keys", json={"name": role, "projects": [project], "role": role}).json()
    return httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {key['secret']}"}, timeout=60)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer gbx_1_2", "Basic Zm9v"])
def test_without_a_good_key_nothing_is_answered(service: Service, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    response = httpx.get(f"{service.url}{PROJECT}/graders", headers=headers)
    told = problem(response, 401, "unauthorized")
    assert response.headers["www-authenticate"] == "Bearer"
    if not header:
        assert "--api-key, api_key= or GRADEBOX_API_KEY" in told


def test_a_key_sees_its_own_projects_alone(service: Service, client: httpx.Client) -> None:
    client.post("/v1/projects", json={"key": "other"}).raise_for_status()
    with keyed(client, service, "read", "other") as narrow:
        assert narrow.get("/v1/projects/other/graders").json() == []
        assert [project["key"] for project in narrow.get("/v1/projects").json()] == ["other"]
        told = problem(narrow.delete(f"{PROJECT}/graders/exact"), 404, "not-found")  # whatever the role
        assert "name one of `gradebox projects list` by --project, project= or GRADEBOX_PROJECT" in told


def test_only_a_key_for_everything_manages_keys(service: Service, client: httpx.Client) -> None:
    with keyed(client, service, "manage") as narrow:
        problem(narrow.get("/v1/keys"), 403, "forbidden")
        problem(narrow.post("/v1/keys", json={"name": "mine", "projects": ["*"]}), 403, "forbidden")
        problem(narrow.delete("/v1/keys/any"), 403, "forbidden")
        problem(narrow.post("/v1/projects", json={"key": "mine"}), 403, "forbidden")
        problem(narrow.get("/v1/audit"), 403, "forbidden")


def test_a_key_that_scores_cancels_its_own_batches_alone(client: httpx.Client, service: Service) -> None:
    create(client)
    another = client.post(f"{PROJECT}/batches?grader=exact", content=LINE, headers=LINES).json()
    with keyed(client, service, "score") as scorer:
        own = scorer.post(f"{PROJECT}/batches?grader=exact", content=LINE, headers=LINES).json()
        assert scorer.post(f"{PROJECT}/batches/{own['id']}/cancel").json()["state"] == "cancelled"
        assert "'manage'" in problem(scorer.post(f"{PROJECT}/batches/{another['id']}/cancel"), 403, "forbidden")
    assert client.post(f"{PROJECT}/batches/{another['id']}/cancel").json()["state"] == "cancelled"
    assert own["created_by"] != another["created_by"]
