import httpx

from tests.api.conftest import problem


def test_a_project_is_made_once(client: httpx.Client) -> None:
    assert client.post("/v1/projects", json={"key": "math"}).json()["name"] == "math"
    problem(client.post("/v1/projects", json={"key": "math"}), 409, "conflict")
    assert [project["key"] for project in client.get("/v1/projects").json()] == ["default", "math"]
