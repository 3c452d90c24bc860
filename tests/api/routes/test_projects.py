import httpx

from tests.api.conftest import problem


def test_a_project_is_made_once(client: httpx.Client) -> None:
    assert client.post("/v1/projects", json={"key": "math"}).json()["name"] == "math"
    problem(client.post("/v1/projects", json={"key": "math"}), 409, "conflict")
    assert [project["key"] for project in client.get("/v1/projects").json()] == ["default", "math"]


def test_a_key_that_breaks_the_pattern_is_told_what_keys_may_have(client: httpx.Client) -> None:
    told = problem(client.post("/v1/projects", json={"key": "My Team"}), 422, "invalid-request")
    assert "1 to 64 of a-z 0-9 . _ - with a letter or digit first" in told


def test_an_emoji_may_be_escaped(client: httpx.Client) -> None:
    body = rb'{"key": "smile", "description": "\ud83d\ude00"}'
    made = client.post("/v1/projects", content=body, headers={"Content-Type": "application/json"})
    assert made.json()["description"] == "\N{GRINNING FACE}"
