import httpx
import pytest

from tests.api.conftest import PROJECT, Service, create, problem


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


def test_only_a_key_for_everything_manages(service: Service, client: httpx.Client) -> None:
    secret = client.post("/v1/keys", json={"name": "narrow", "projects": ["default"]}).json()["secret"]
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {secret}"}) as narrow:
        problem(narrow.get("/v1/keys"), 403, "forbidden")
        problem(narrow.post("/v1/keys", json={"name": "mine", "projects": ["*"]}), 403, "forbidden")
        problem(narrow.delete("/v1/keys/any"), 403, "forbidden")
        problem(narrow.post("/v1/projects", json={"key": "mine"}), 403, "forbidden")


def test_a_revoked_key_is_refused(service: Service, client: httpx.Client) -> None:
    key = client.post("/v1/keys", json={"name": "short", "projects": ["default"]}).json()
    headers = {"Authorization": f"Bearer {key['secret']}"}
    assert httpx.get(f"{service.url}{PROJECT}/graders", headers=headers).status_code == 200
    assert client.delete(f"/v1/keys/{key['id']}").status_code == 204
    problem(httpx.get(f"{service.url}{PROJECT}/graders", headers=headers), 401, "unauthorized")
