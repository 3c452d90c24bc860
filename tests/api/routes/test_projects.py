import httpx

from storage import redis_keys
from tests.api.conftest import Service, answer_of, problem


def test_a_project_is_made_once(client: httpx.Client) -> None:
    assert client.post("/v1/projects", json={"key": "math"}).json()["name"] == "math"
    problem(client.post("/v1/projects", json={"key": "math"}), 409, "conflict")
    assert [project["key"] for project in client.get("/v1/projects").json()] == ["default", "math"]


def test_projects_that_a_key_does_not_cover_are_not_read(service: Service) -> None:
    """Of a service with ten thousand, reading all takes a third of a second."""
    for key in ("own", "also"):
        service.store.projects.ensure(key)
    service.store.redis.hset(redis_keys.PROJECTS, "other", "not to be read")
    head = {"Authorization": f"Bearer {service.key('own', 'also', role='read')}"}
    listed = answer_of(httpx.get(f"{service.url}/v1/projects", headers=head))
    assert [project["key"] for project in listed] == ["also", "own"]
    query = {"query": "{ projects { key } }"}
    assert answer_of(httpx.post(f"{service.url}/api/graphql", headers=head, json=query))["data"] == {
        "projects": [{"key": "also"}, {"key": "own"}]
    }
