import httpx

from tests.api.conftest import answer_of, problem


def test_a_secret_is_shown_once(client: httpx.Client) -> None:
    made = answer_of(client.post("/v1/keys", json={"name": "ci", "projects": ["default"]}), 201)
    assert made["secret"].startswith(f"gbx_{made['id']}_")
    listed = client.get("/v1/keys").json()
    assert [(key["name"], key["secret"]) for key in listed] == [("first", None), ("ci", None)]


def test_a_key_for_a_project_that_is_not_there(client: httpx.Client) -> None:
    problem(client.post("/v1/keys", json={"name": "ci", "projects": ["nowhere"]}), 404, "not-found")


def test_who_manages_keys_cannot_shut_themselves_out(client: httpx.Client) -> None:
    (first,) = client.get("/v1/keys").json()
    assert "another one" in problem(client.delete(f"/v1/keys/{first['id']}"), 409, "conflict")
    second = client.post("/v1/keys", json={"name": "second", "projects": ["*"]}).json()
    headers = {"Authorization": f"Bearer {second['secret']}"}
    assert client.delete(f"/v1/keys/{first['id']}", headers=headers).status_code == 204


def test_a_key_that_is_not_there_cannot_be_revoked(client: httpx.Client) -> None:
    problem(client.delete("/v1/keys/nobody"), 404, "not-found")
