import re
import time

import httpx
import pytest

from storage.sessions import SESSION_S
from tests.api.conftest import Service
from ui.templates import static
from ui.visits import COOKIE

GRADERS = "/ui/projects/default/graders"
SAME = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def stranger(service: Service) -> httpx.Client:
    return httpx.Client(base_url=service.url, timeout=60)


def test_the_root_leads_to_the_pages_and_these_to_the_form(stranger: httpx.Client) -> None:
    assert stranger.get("/").headers["location"] == "/ui/"
    asked = stranger.get(f"{GRADERS}?after=a&b=c")
    assert asked.status_code == 303
    form = stranger.get(asked.headers["location"])
    assert form.status_code == 200
    assert f'name="next" value="{GRADERS}?after=a&amp;b=c"' in form.text


def test_a_key_begins_a_session_that_only_pages_see(service: Service, stranger: httpx.Client, secret: str) -> None:
    answer = stranger.post("/ui/sign-in", data={"key": secret, "next": GRADERS}, headers=SAME)
    assert (answer.status_code, answer.headers["location"]) == (303, GRADERS)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    for part in ("HttpOnly", "Path=/ui", "SameSite=lax", f"Max-Age={SESSION_S}"):
        assert part in cookie
    assert "Secure" not in cookie  # it came without TLS
    assert stranger.get(GRADERS).status_code == 200
    # Below /v1 a session is nothing, even where a browser were to send it.
    session = answer.cookies[COOKIE]
    headers = {"Cookie": f"{COOKIE}={session}"}
    assert httpx.get(f"{service.url}/v1/projects/default/graders", headers=headers).status_code == 401
    kept = service.store.redis.keys("gradebox:session:*")
    assert len(kept) == 1
    assert session.encode() not in kept[0]


def test_a_wrong_key_is_counted_and_said(service: Service, stranger: httpx.Client) -> None:
    wrong = stranger.post("/ui/sign-in", data={"key": "gbx_000000000000_" + "x" * 43}, headers=SAME)
    assert wrong.status_code == 401
    assert "unknown or revoked" in wrong.text
    service.services.failed_keys._most = type(service.services.failed_keys._most)(1)
    stranger.post("/ui/sign-in", data={"key": "nothing"}, headers=SAME)
    assert stranger.post("/ui/sign-in", data={"key": "nothing"}, headers=SAME).status_code == 429


def test_signing_out_and_revoking_end_a_session(service: Service, client: httpx.Client, stranger: httpx.Client) -> None:
    key = client.post("/v1/keys", json={"name": "k", "projects": ["default"], "role": "read"}).json()
    stranger.post("/ui/sign-in", data={"key": key["secret"]}, headers=SAME)
    assert stranger.get(GRADERS).status_code == 200
    client.delete(f"/v1/keys/{key['id']}").raise_for_status()
    assert stranger.get(GRADERS).status_code == 303
    other = client.post("/v1/keys", json={"name": "k", "projects": ["default"], "role": "read"}).json()
    session = stranger.post("/ui/sign-in", data={"key": other["secret"]}, headers=SAME).cookies[COOKIE]
    assert stranger.post("/ui/sign-out", headers=SAME).status_code == 303
    cookie = {"Cookie": f"{COOKIE}={session}"}  # as one who had copied it
    assert httpx.get(f"{service.url}{GRADERS}", headers=cookie).status_code == 303


def test_a_link_signs_in_once(client: httpx.Client, stranger: httpx.Client) -> None:
    path = client.post("/v1/me/sign-in").json()["path"]
    assert stranger.get(path).headers["location"] == "/ui/"
    assert stranger.get(GRADERS).status_code == 200
    with httpx.Client(base_url=stranger.base_url) as second:
        used = second.get(path)
        assert used.status_code == 401
        assert "used before" in used.text
        assert second.get("/ui/enter").status_code == 401


@pytest.mark.parametrize(
    "goal",
    [
        "https://evil.example",
        "//evil.example",
        "/ui/\\evil.example",
        "/\\evil",
        "/ui/ \n",
        "/v1/me",
        "javascript:1",
        "",
    ],
)
def test_nobody_is_sent_elsewhere(stranger: httpx.Client, secret: str, goal: str) -> None:
    answer = stranger.post("/ui/sign-in", data={"key": secret, "next": goal}, headers=SAME)
    assert answer.headers["location"] == "/ui/"


@pytest.mark.parametrize(
    ("headers", "is_let_in"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({}, False),
    ],
)
def test_the_page_of_another_site_changes_nothing(
    browse: httpx.Client, headers: dict[str, str], is_let_in: bool
) -> None:
    del browse.headers["Sec-Fetch-Site"]
    for path in ("/ui/projects/default/check", "/ui/projects/default/keep"):
        answer = browse.post(path, data={"source": "x", "samples": "", "key": "k"}, headers=headers)
        assert (answer.status_code != 403) == is_let_in, answer.text
    own = f"http://{browse.base_url.netloc.decode()}"
    assert browse.post("/ui/projects/default/check", data={"source": "x"}, headers={"Origin": own}).status_code == 200
    assert browse.post("/ui/sign-out", headers=headers).status_code == (303 if is_let_in else 403)


def test_every_answer_has_the_policy(browse: httpx.Client, stranger: httpx.Client) -> None:
    for client, path in (
        (stranger, "/ui/sign-in"),
        (stranger, "/ui/nowhere"),
        (browse, GRADERS),
        (browse, "/ui/projects/nowhere/graders"),
        (browse, f"{GRADERS}/nothing"),
        (browse, static("pages.css")),
        (browse, "/ui/static/pages.css"),
        (browse, "/ui/projects/default/batches"),
        (browse, "/ui/projects/default/models"),
    ):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        kept = answer.headers["cache-control"]
        assert ("immutable" in kept) if "?v=" in path else kept == "no-store", path


def test_what_a_key_does_not_cover_is_not_there(client: httpx.Client, stranger: httpx.Client) -> None:
    client.post("/v1/projects", json={"key": "other"}).raise_for_status()
    key = client.post("/v1/keys", json={"name": "k", "projects": ["other"], "role": "read"}).json()
    stranger.post("/ui/sign-in", data={"key": key["secret"]}, headers=SAME)
    assert stranger.get("/ui/").headers["location"] == "/ui/projects/other/graders"
    for project in ("default", "nowhere"):
        hidden = stranger.get(f"/ui/projects/{project}/graders")
        assert hidden.status_code == 404
        assert f"there is no project &#39;{project}&#39;" in hidden.text
    saved = stranger.post("/ui/projects/other/keep", data={"key": "k", "source": "x"}, headers=SAME)
    assert saved.status_code == 403
    assert "role &#39;manage&#39;" in saved.text


def test_redis_away_is_said_in_words(service: Service, browse: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        from redis.exceptions import ConnectionError as RedisConnectionError

        raise RedisConnectionError("refused")

    monkeypatch.setattr(service.store.sessions, "key_of", away)
    answer = browse.get(GRADERS)
    assert answer.status_code == 503
    assert "a part of it is away" in answer.text
    part = browse.post("/ui/projects/default/check", data={"source": "x"}, headers={"HX-Request": "true"})
    assert (part.status_code, part.headers["hx-retarget"]) == (503, "#notice")


def test_a_session_lives_on_while_it_is_used(service: Service, browse: httpx.Client) -> None:
    (name,) = service.store.redis.keys("gradebox:session:*")
    service.store.redis.expire(name, 5)
    browse.get(GRADERS)
    assert service.store.redis.ttl(name) > 1000
    service.store.redis.expire(name, 0)
    time.sleep(0.05)
    assert browse.get(GRADERS).status_code == 303


def test_what_browsers_keep_is_named_by_what_it_holds(stranger: httpx.Client) -> None:
    form = stranger.get("/ui/sign-in").text
    loaded = re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', form)
    assert len(loaded) == 4
    for path in loaded:
        text = stranger.get(path)
        assert "immutable" in text.headers["cache-control"]
        assert "from\"./" not in text.text.replace(" ", "")
        assert 'import"./' not in text.text.replace(" ", "")
