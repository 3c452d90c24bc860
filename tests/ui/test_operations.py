import httpx
from playwright.sync_api import Page, expect

from tests.api.conftest import PROJECT, create
from tests.ui.conftest import shoot

HOSTILE = "<img src=x onerror='window.hacked=1'>"


def test_changes_and_keys_are_listed_for_those_who_manage(browse: httpx.Client, client: httpx.Client) -> None:
    create(client, "exact")
    client.patch(f"{PROJECT}/graders/exact", json={"locked": True}).raise_for_status()
    changes = browse.get("/ui/projects/default/audit").text
    assert changes.index("grader.describe") < changes.index("grader.create")
    assert browse.get("/ui/projects/default/audit?before=x").status_code == 422
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


def test_models_are_listed_with_what_they_came_to(page: Page, client: httpx.Client) -> None:
    page.click("text=Models")
    expect(page.locator(".empty")).to_contain_text("no models")
    page.click("text=Changes")
    expect(page.locator("h1")).to_have_text("Changes")
    page.click("text=Service")
    expect(page.locator(".good")).to_contain_text("Ready: Redis answers")
    shoot(page, "service")
