import re
import time

import httpx
import pytest

from storage.access.sessions import SESSION_S
from tests.api.conftest import Service
from ui.templates import static
from ui.visits import COOKIE

GRADERS = "/ui/projects/default/graders"
SAME = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def stranger(service: Service) -> httpx.Client:
    return httpx.Client(base_url=service.url, timeout=60)


def test_the_root_leads_to_the_pages_and_these_to_the_form(stranger: httpx.Client) -> None:
    assert stranger.get("/").headers["location"] == stranger.get("/ui").headers["location"] == "/ui/"
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
    assert "Secure" not in cookie  # the request came without TLS
    assert stranger.get(GRADERS).status_code == 200
    # Below /v1 a session has no effect, even if a browser sent it.
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
    cookie = {"Cookie": f"{COOKIE}={session}"}  # a copy of the cookie
    assert httpx.get(f"{service.url}{GRADERS}", headers=cookie).status_code == 303


def test_a_link_signs_in_once(client: httpx.Client, stranger: httpx.Client) -> None:
    path = client.post("/v1/me/sign-in").json()["path"]
    typed = {"Sec-Fetch-Site": "none"}
    assert stranger.get(path, headers=typed).headers["location"] == "/ui/"
    assert stranger.get(GRADERS).status_code == 200
    with httpx.Client(base_url=stranger.base_url) as second:
        used = second.get(path, headers=typed)
        assert used.status_code == 401
        assert "already used" in used.text
        assert second.get("/ui/enter", headers=typed).status_code == 401


def test_a_link_of_a_revoked_key_is_refused_and_says_so(client: httpx.Client, stranger: httpx.Client) -> None:
    key = client.post("/v1/keys", json={"name": "k", "projects": ["default"], "role": "read"}).json()
    bearer = {"Authorization": f"Bearer {key['secret']}"}
    path = stranger.post("/v1/me/sign-in", headers=bearer).json()["path"]
    client.delete(f"/v1/keys/{key['id']}").raise_for_status()
    refused = stranger.get(path, headers={"Sec-Fetch-Site": "none"})
    assert (refused.status_code, "its API key was revoked" in refused.text) == (401, True)


def test_a_link_is_not_used_up_by_what_looks_at_links(client: httpx.Client, stranger: httpx.Client) -> None:
    path = client.post("/v1/me/sign-in").json()["path"]
    token = path.partition("token=")[2]
    for headers in ({}, {"Sec-Fetch-Site": "cross-site"}):
        assert stranger.head(path, headers=headers).status_code == 200
        asked = stranger.get(path, headers=headers)
        assert asked.status_code == 200
        assert "set-cookie" not in asked.headers
        assert f'value="{token}"' in asked.text
    elsewhere = stranger.post("/ui/enter", data={"token": token}, headers={"Sec-Fetch-Site": "cross-site"})
    assert elsewhere.status_code == 403
    assert stranger.post("/ui/enter", data={"token": token}, headers=SAME).headers["location"] == "/ui/"
    assert stranger.get(GRADERS).status_code == 200
    assert stranger.post("/ui/enter", data={"token": token}, headers=SAME).status_code == 401


def test_a_browser_has_one_session(service: Service, browse: httpx.Client, secret: str) -> None:
    browse.post("/ui/sign-in", data={"key": secret, "next": ""})
    assert len(service.store.redis.keys("gradebox:session:*")) == 1


def test_who_was_signed_out_returns_to_the_page_and_not_to_what_it_sent(stranger: httpx.Client) -> None:
    page = f"{stranger.base_url}/ui/projects/default/batches/x?page=2".replace("//ui", "/ui")
    sent = stranger.post("/ui/projects/default/batches/x/cancel", headers={**SAME, "Referer": page})
    assert sent.status_code == 303
    assert sent.headers["location"] == "/ui/sign-in?next=%2Fui%2Fprojects%2Fdefault%2Fbatches%2Fx%3Fpage%3D2"
    hosted = stranger.get(GRADERS, headers={"Host": "evil.example"})
    assert hosted.headers["location"].startswith("/ui/sign-in?")


@pytest.mark.parametrize(
    "goal",
    ["https://a.example", "//evil.example", "/ui/\\evil.example", "/\\evil", "/ui/ \n", "/v1/me", "javascript:1", ""],
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
def test_a_page_of_another_site_changes_nothing(browse: httpx.Client, headers: dict[str, str], is_let_in: bool) -> None:
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
    for page in (saved, stranger.get("/ui/projects/other/graders/none"), stranger.get("/ui/projects/other/models")):
        assert 'href="/ui/projects/other/graders"' in page.text
        assert 'href="/ui/"' not in page.text


def test_redis_away_is_said_in_words(service: Service, browse: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        from redis.exceptions import ConnectionError as RedisConnectionError

        raise RedisConnectionError("refused")

    monkeypatch.setattr(service.store.sessions, "key_of", away)
    answer = browse.get(GRADERS)
    assert answer.status_code == 503
    assert "a part of it is unavailable" in answer.text
    assert answer.headers["retry-after"] == "1"
    part = browse.post("/ui/projects/default/check", data={"source": "x"}, headers={"HX-Request": "true"})
    assert (part.status_code, part.headers["hx-retarget"]) == (503, "#notice")


def test_a_session_ends_a_week_after_it_began(service: Service, browse: httpx.Client) -> None:
    (name,) = service.store.redis.keys("gradebox:session:*")
    assert SESSION_S - 60 < service.store.redis.ttl(name) <= SESSION_S
    service.store.redis.expire(name, 50)
    assert browse.get(GRADERS).status_code == 200
    assert service.store.redis.ttl(name) <= 50
    service.store.redis.expire(name, 0)
    time.sleep(0.05)
    assert browse.get(GRADERS).status_code == 303


def test_a_fault_is_guarded_too(service: Service, browse: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("our insides")

    monkeypatch.setattr(service.store.sessions, "key_of", fails)
    answer = browse.get(GRADERS)
    assert answer.status_code == 500
    assert "the service has an internal error" in answer.text
    assert "our insides" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


def test_what_browsers_keep_is_named_by_what_it_holds(stranger: httpx.Client) -> None:
    form = stranger.get("/ui/sign-in").text
    loaded = re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', form)
    assert len(loaded) == 4
    for path in loaded:
        text = stranger.get(path)
        assert "immutable" in text.headers["cache-control"]
        assert 'from"./' not in text.text.replace(" ", "")
        assert 'import"./' not in text.text.replace(" ", "")
