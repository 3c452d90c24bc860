"""Tests of the pages below a path of a reverse proxy."""

import re
from collections.abc import Iterator
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urljoin

import httpx
import pytest
from fastapi import Request

import ui
from api.services import Services
from api.settings import ApiSettings
from gradebox.key_file import KEY_FILE
from gradebox.service import sign_in
from tests.api.conftest import GOOD, PROJECT, Service, answer_of, create, serving
from ui.signing_in import signed_out
from ui.templates import root_path

ROOT = "/team/gradebox"
_OF_CONNECTION = {"content-length", "transfer-encoding", "content-encoding", "date"}
_PATH = re.compile(r'\b(href|src|action|hx-get|hx-post)="([^"]*)"')


@pytest.fixture
def proxied(service: Service) -> Iterator[str]:
    """The URL of a proxy that has the service at a path."""
    running = service.services
    settings = ApiSettings(metrics_dir=running.settings.metrics_dir, root_path=ROOT)
    with serving(Services(running.store, running.pool, settings), service.settings) as below:

        class Proxy(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not self.path.startswith(f"{ROOT}/"):
                    return self.send_error(404)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                url = below.url + self.path.removeprefix(ROOT)
                answer = httpx.request(self.command, url, headers=dict(self.headers), content=body, timeout=60)
                self.send_response_only(answer.status_code)
                for name, value in answer.headers.multi_items():
                    if name not in _OF_CONNECTION:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)
                return None

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
            Thread(target=server.serve_forever).start()
            yield f"http://127.0.0.1:{server.server_port}{ROOT}"
            server.shutdown()


def test_below_the_path_of_a_proxy_every_link_leads_to_a_page(client: httpx.Client, secret: str, proxied: str) -> None:
    create(client)
    new = {"graders": [{"key": "exact"}], "threads": [{"completion": "4"}]}
    batch = answer_of(client.post(f"{PROJECT}/batches", json=new), 202)["id"]
    pages = f"{proxied}/ui/projects/default"
    with httpx.Client(timeout=60, headers={"Sec-Fetch-Site": "same-origin"}, follow_redirects=True) as browse:
        asked = browse.get(f"{pages}/batches?grader=exact")
        (goal,) = re.findall(r'name="next" value="([^"]*)"', asked.text)
        signed_in = browse.post(f"{proxied}/ui/sign-in", data={"key": secret, "next": unescape(goal)})
        assert (signed_in.status_code, str(signed_in.url)) == (200, f"{pages}/batches?grader=exact")
        assert [cookie.path for cookie in browse.cookies.jar] == [f"{ROOT}/ui"]
        todo, seen = [f"{proxied}/", f"{proxied}/ui", f"{pages}/batches/{batch}/rows/0"], dict[str, str]()
        while todo:
            url = todo.pop()
            if (path := url.partition("?")[0]) in seen or path.endswith("/doctor"):
                continue
            answer = browse.get(url)
            assert answer.status_code == 200, url
            seen[path] = answer.text
            found = _PATH.findall(answer.text) if answer.headers["Content-Type"].startswith("text/html") else []
            paths = [(name, urljoin(str(answer.url), unescape(one))) for name, one in found if one != "data:,"]
            assert all(each.startswith(f"{proxied}/ui/") for _, each in paths), paths
            todo += [each.partition("#")[0] for name, each in paths if name in ("href", "src", "hx-get")]
        assert {f"{pages}/batches/{batch}", f"{pages}/new", f"{pages}/audit"} <= seen.keys()
        assert f'gradebox.Client("{proxied}"' in unescape(seen[f"{pages}/graders/exact"])
        kept = browse.post(f"{pages}/keep", data={"key": "new", "source": GOOD}, headers={"HX-Request": "true"})
        assert kept.headers["HX-Redirect"] == f"{ROOT}/ui/projects/default/graders/new"
        cancelled = browse.post(f"{pages}/batches/{batch}/cancel")
        assert (cancelled.status_code, str(cancelled.url)) == (200, f"{pages}/batches/{batch}")
        assert browse.post(f"{proxied}/ui/sign-out").url == f"{proxied}/ui/sign-in"
        assert not browse.cookies.jar
        link = answer_of(client.post("/v1/me/sign-in"), 201)["path"]
        assert browse.get(f"{proxied}{link}", headers={"Sec-Fetch-Site": "none"}).url == f"{pages}/graders"
        assert browse.get(f"{proxied}/openapi.json").json()["servers"] == [{"url": ROOT}]


def test_the_service_prints_no_link_to_pages_that_only_a_proxy_has(
    service: Service, secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / KEY_FILE).write_text(secret)
    assert str(sign_in.link(service.url, tmp_path)).startswith(f"{service.url}/ui/enter?token=")
    monkeypatch.setenv("GRADEBOX_ROOT_PATH", ROOT)
    assert sign_in.link(service.url, tmp_path) is None


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_below_a_path_that_is_like_that_of_the_pages_one_returns_to_the_page(method: str) -> None:
    sent = {"type": "http", "method": method, "scheme": "http", "server": ("a", 80), "path": "/ui/projects/p/models"}
    request = Request({**sent, "query_string": b"", "headers": [(b"referer", b"http://a/ui/ui/projects/p/models")]})
    before = root_path.set("/ui")
    location = signed_out(request).headers["location"]
    root_path.reset(before)
    assert location == "/ui/ui/sign-in?next=%2Fui%2Fprojects%2Fp%2Fmodels"


def test_no_template_has_a_path_without_it() -> None:
    templates = Path(ui.__file__).parent / "templates"
    assert not [each.name for each in templates.iterdir() if re.search("[\"']/ui", each.read_text())]


@pytest.mark.parametrize("path", ["gradebox", "/gradebox/", "/", "//host", "/a b", '/"'])
def test_what_is_no_path_is_refused(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setenv("GRADEBOX_ROOT_PATH", path)
    with pytest.raises(ValueError, match="is no path, such as /gradebox, without a slash at its end"):
        ApiSettings()
