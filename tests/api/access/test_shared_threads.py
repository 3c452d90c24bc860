"""Tests of long work of one project: others wait for it neither with their API keys nor with their requests."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Any

import httpx
import pytest

from tests.api.conftest import PROJECT, Service, answer_of
from tests.api.http.test_bounded_protocol import connected
from tests.api.http.test_websocket import request
from tests.storage.making import accept, finish_all, wanted
from tests.waiting import eventually

MANY = 60  # more than the service has threads


class Blocked:
    """Work that waits until the test goes on.

    Attributes:
        begun: how often it began.
    """

    def __init__(self) -> None:
        self.goes_on = Event()
        self.begun = 0

    def __call__(self, *_: object, **__: object) -> Any:
        self.begun += 1
        self.goes_on.wait(60)
        raise OSError("the test is over")


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    work = Blocked()
    yield work
    work.goes_on.set()


@contextmanager
def sent(service: Service, asked: bytes) -> Iterator[list[socket.socket]]:
    """Sends a request many times, each on a connection of its own."""
    with ExitStack() as stack:
        opened = [stack.enter_context(connected(service)) for _ in range(MANY)]
        for connection in opened:
            connection.sendall(asked)
        time.sleep(0.5)
        yield opened


def ask_as_another(service: Service) -> None:
    """Requests of another project that look up its key, read a list, and read one record."""
    headers = {"Authorization": f"Bearer {service.key('other')}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=5) as client:
        for path in ("/v1/me", "/v1/projects/other/graders", "/v1/projects/other/budget"):
            assert client.get(path).status_code == 200, path


@pytest.mark.parametrize(
    ("method", "path", "part"),
    [
        ("GET", "batches/{}", "store.batches.get"),
        ("GET", "batches/{}/table", "store.batches.get"),
        ("GET", "compare?a={}&b=x", "store.batches.get"),
        ("POST", "batches/{}/retry", "dispatch.retry"),
        ("DELETE", "batches/{}", "store.batches.delete"),
    ],
)
def test_long_work_on_a_batch_holds_up_no_other_project(
    service: Service, blocked: Blocked, monkeypatch: pytest.MonkeyPatch, method: str, path: str, part: str
) -> None:
    batch = accept(service.store, 10)
    finish_all(service.store)
    owner, _, name = part.rpartition(".")
    of: Any = service.services
    for each in owner.split("."):
        of = getattr(of, each)
    monkeypatch.setattr(of, name, blocked)
    with sent(service, request(service.key("default"), method, f"{PROJECT}/{path.format(batch)}")):
        eventually(lambda: blocked.begun)
        ask_as_another(service)


def test_a_key_is_known_while_threads_wait(service: Service, blocked: Blocked, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = accept(service.store, 10)
    monkeypatch.setattr(service.store.batches, "cancel", blocked)
    with sent(service, request(service.key("default"), "POST", f"{PROJECT}/batches/{batch}/cancel")):
        eventually(lambda: blocked.begun == 40)
        headers = {"Authorization": f"Bearer {service.key('other')}"}
        answer_of(httpx.get(f"{service.url}/v1/projects/other/graders", headers=headers, timeout=5))


PAGES = [
    ("batches/{}/rows/0", "ui.row_page._read"),
    ("batches/{}?sort=index", "ui.batches._scores"),
    ("batches", "storage.batches.batches.Batches.newest"),
    ("graders", "ui.graders._listed"),
    ("graders/exact?sample={}:0", "ui.editor.taken_along"),
    ("models", "ui.models._listed"),
]


@pytest.mark.parametrize(("path", "part"), PAGES)
def test_pages_of_one_project_hold_up_no_other(
    service: Service, blocked: Blocked, monkeypatch: pytest.MonkeyPatch, path: str, part: str
) -> None:
    """And a page whose client has gone before its turn is not made."""
    batch = accept(service.store, 10, wanted(service.store, "exact"), wanted(service.store, "more"))
    finish_all(service.store)
    session = service.store.sessions.begin(service.key("default", role="read").split("_")[1])
    cookie = f"Cookie: gradebox-session={session}\r\n"
    monkeypatch.setattr(part, blocked)
    with sent(service, request("", "GET", f"/ui/projects/default/{path.format(batch)}", more=cookie)):
        eventually(lambda: blocked.begun == 4)
        ask_as_another(service)
        assert blocked.begun == 4
    time.sleep(0.5)
    blocked.goes_on.set()
    eventually(lambda: not service.services.reading.shares.held)
    assert blocked.begun == 4
