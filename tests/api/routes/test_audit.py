import httpx
import pytest

from api.services import Services
from api.settings import ApiSettings
from tests.api.access.test_auth import LINE, LINES
from tests.api.conftest import GOOD, PROJECT, Service, create, problem, serving


def test_each_change_gives_a_line(client: httpx.Client, service: Service) -> None:
    create(client)
    client.put(f"{PROJECT}/graders/exact", json={"source": f"# 2\n{GOOD}"}).raise_for_status()
    client.put(f"{PROJECT}/graders/exact", json={"source": f"# 2\n{GOOD}"}).raise_for_status()  # changes nothing
    batch = client.post(f"{PROJECT}/batches?grader=exact", content=LINE, headers=LINES).json()["id"]
    client.post(f"{PROJECT}/batches/{batch}/cancel").raise_for_status()
    client.post(f"{PROJECT}/batches/{batch}/cancel").raise_for_status()  # has already ended
    client.delete(f"{PROJECT}/batches/{batch}").raise_for_status()
    client.patch(f"{PROJECT}/graders/exact", json={"name": "Exact", "locked": True}).raise_for_status()
    problem(client.delete(f"{PROJECT}/graders/exact"), 409, "locked")  # changes nothing
    client.patch(f"{PROJECT}/graders/exact", json={"locked": False}).raise_for_status()
    client.delete(f"{PROJECT}/graders/exact").raise_for_status()

    lines = client.get(f"{PROJECT}/audit").json()

    assert [(line["action"], line["object"], line["detail"]) for line in reversed(lines)] == [
        ("grader.create", "exact", "version 1"),
        ("grader.update", "exact", "version 2"),
        ("batch.create", batch, "exact@2"),
        ("batch.cancel", batch, ""),
        ("batch.delete", batch, ""),
        ("grader.describe", "exact", "name, locked: True"),
        ("grader.describe", "exact", "locked: False"),
        ("grader.delete", "exact", ""),
    ]


def test_a_line_says_who_and_from_where(client: httpx.Client, service: Service) -> None:
    made = client.post(f"{PROJECT}/graders", json={"key": "exact", "source": GOOD})
    (line,) = client.get(f"{PROJECT}/audit").json()
    (first,) = client.get("/v1/keys").json()
    assert line["key"] == first["id"]
    assert line["address"] == "127.0.0.1"
    assert line["request_id"] == made.headers["x-request-id"]
    assert line["at"] >= made.json()["created_at"][:19]


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [("", "192.0.2.7", "127.0.0.1"), ("127.0.0.0/8", "192.0.2.7", "192.0.2.7"), ("*", "z" * 50_000, "z" * 64)],
)
def test_only_a_proxy_that_is_known_says_who_is_behind_it(
    client: httpx.Client, service: Service, proxies: str, forwarded: str, address: str
) -> None:
    services = Services(service.store, service.services.pool, ApiSettings(proxies=proxies))
    with serving(services, service.settings) as proxied:
        headers = {**client.headers, "X-Forwarded-For": forwarded}
        httpx.post(f"{proxied.url}/v1/projects", json={"key": "other"}, headers=headers).raise_for_status()
    assert max(map(len, services.strangers._turns), default=0) <= len(address)
    assert client.get("/v1/audit").json()[0]["address"] == address


def test_changes_of_keys_and_projects_are_the_services(client: httpx.Client) -> None:
    client.post("/v1/projects", json={"key": "other"}).raise_for_status()
    key = client.post("/v1/keys", json={"name": "ci", "projects": ["other"], "role": "read"}).json()["id"]
    client.delete(f"/v1/keys/{key}").raise_for_status()
    found = [(line["action"], line["object"], line["detail"]) for line in client.get("/v1/audit").json()]
    assert found == [("key.revoke", key, ""), ("key.create", key, "read for other"), ("project.create", "other", "")]


def test_older_lines_are_read_on_from_the_last(client: httpx.Client) -> None:
    create(client)
    for name in "abcd":
        client.patch(f"{PROJECT}/graders/exact", json={"name": name}).raise_for_status()
    newest = client.get(f"{PROJECT}/audit?limit=3").json()
    older = client.get(f"{PROJECT}/audit?limit=3&before={newest[-1]['id']}").json()
    assert [line["action"] for line in older] == ["grader.describe", "grader.create"]
    assert client.get(f"{PROJECT}/audit?before=0-0").json() == []
    problem(client.get(f"{PROJECT}/audit?before=yesterday"), 422, "invalid-request")
