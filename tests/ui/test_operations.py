import httpx

from tests.api.conftest import PROJECT, Service, create

HOSTILE = "<img src=x onerror='window.hacked=1'>"


def test_environments_are_listed_with_their_newest_builds(
    browse: httpx.Client, client: httpx.Client, service: Service
) -> None:
    assert "gradebox environments create" in browse.get("/ui/projects/default/environments").text
    service.store.environments.create("default", "math", ["sympy", HOSTILE])
    shown = browse.get("/ui/projects/default/environments").text
    assert HOSTILE not in shown
    assert '<td class="name">math</td><td class="number">1</td>' in shown
    assert "building" in shown
    claim = service.store.builds.claim()
    assert claim is not None
    service.store.builds.fail(claim, f"no such package: {HOSTILE}")
    shown = browse.get("/ui/projects/default/environments").text
    assert '<span class="bad">failed</span> no such package: &lt;img' in shown
    assert 'href="/ui/projects/default/environments"' in browse.get("/ui/projects/default/models").text


def test_changes_and_keys_are_listed_for_those_who_manage(browse: httpx.Client, client: httpx.Client) -> None:
    create(client, "exact")
    client.patch(f"{PROJECT}/graders/exact", json={"locked": True}).raise_for_status()
    changes = browse.get("/ui/projects/default/audit").text
    assert changes.index("grader.describe") < changes.index("grader.create")
    assert browse.get("/ui/projects/default/audit?before=x").status_code == 422
    client.put(f"{PROJECT}/budget", json={"usd": 2.5, "period": "day"}).raise_for_status()
    budget = browse.get("/ui/projects/default/models").text
    assert "Budget: 2.5 USD each day; 0 USD and 0 tokens are spent." in budget
    assert "used up" not in budget
    client.put(f"{PROJECT}/budget", json={"tokens": 0}).raise_for_status()
    budget = browse.get("/ui/projects/default/models").text
    assert "Budget: 0 tokens each month;" in budget
    assert "It is used up: asks fail until it is raised, or the next month begins." in budget
    shown = browse.get("/ui/projects/default/service").text
    assert "Ready: Redis answers" in shown
    assert ">first<" in shown
    made = client.post("/v1/keys", json={"name": HOSTILE, "projects": ["default"]}).json()
    tried = browse.get("/ui/projects/default/doctor").text
    assert "Graders can be run safely here." in tried
    assert "user namespaces" in tried
    assert HOSTILE not in browse.get("/ui/projects/default/service").text
    browse.post("/ui/sign-in", data={"key": made["secret"]})
    assert browse.get("/ui/projects/default/audit").status_code == 200
    for path in ("service", "doctor"):  # the key manages one project
        assert browse.get(f"/ui/projects/default/{path}").status_code == 403
    reader = client.post("/v1/keys", json={"name": "r", "projects": ["default"], "role": "read"}).json()
    browse.post("/ui/sign-in", data={"key": reader["secret"]})
    assert browse.get("/ui/projects/default/audit").status_code == 403
    listed = browse.get("/ui/projects/default/graders").text
    assert "Changes" not in listed
    assert ">Service<" not in listed
