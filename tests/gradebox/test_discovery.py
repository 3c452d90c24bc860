import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from gradebox.client import Client
from gradebox.client.rules import Rules
from gradebox.discovery import Listeners, Note, find_key, is_local, service_url, write_note
from gradebox.errors import ConnectionFailed, GradeboxError, NotOurs

URL = "http://127.0.0.1:8123"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GRADEBOX_URL", "GRADEBOX_API_KEY", "GRADEBOX_DATA_DIR", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def secret(url: str) -> str | None:
    found = find_key(url)
    return None if found is None else found.secret


def keep_key(folder: Path, key: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "api-key").write_text(f"{key}\n")
    return folder


def test_the_url_is_what_was_given_then_the_environment_then_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert service_url(None) == "http://127.0.0.1:8000"
    monkeypatch.setenv("GRADEBOX_URL", "https://graders.example/")
    assert service_url(None) == "https://graders.example"
    assert service_url("http://other:1") == "http://other:1"


def test_the_environment_names_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADEBOX_API_KEY", "from-environment")
    assert secret(URL) == "from-environment"


def test_of_two_services_each_has_its_own_key(home: Path) -> None:
    keep_key(home / ".local/share/gradebox", "usual")
    write_note(8123, Note(URL, keep_key(home / "second", "second")))

    assert secret(URL) == "second"
    assert secret("http://localhost:8123") == "second"
    assert secret("http://127.0.0.1:8000") == "usual"


def test_a_data_folder_that_was_named_goes_before_what_was_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_note(8123, Note(URL, keep_key(home / "second", "second")))
    monkeypatch.setenv("GRADEBOX_DATA_DIR", str(keep_key(home / "named", "named")))
    assert secret(URL) == "named"


def test_a_key_that_was_found_is_never_sent_to_another_machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_key(home / ".local/share/gradebox", "usual")
    monkeypatch.setenv("GRADEBOX_DATA_DIR", str(keep_key(home / "named", "named")))
    write_note(8123, Note(URL, home / "named"))

    assert find_key("http://graders.example:8123") is None


def test_a_note_that_was_cut_off_is_no_note(home: Path) -> None:
    write_note(8123, Note(URL, home)).write_text('{"url": "http')
    assert find_key(URL) is None


def test_loopback_is_this_machine_and_other_hosts_are_not() -> None:
    for url in ("http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]:8000", "http://localhost"):
        assert is_local(url), url
    for url in ("http://10.0.0.1", "https://localhost.example", "http://127.0.0.1.example"):
        assert not is_local(url), url


OTHER_USER = 65533
LISTENS = """
import os, socket, sys
os.setgid(int(sys.argv[3]))
os.setuid(int(sys.argv[3]))
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family)
print("listening", flush=True)
while True:
    connection, _ = listener.accept()
    print(connection.recv(65536), flush=True)
    connection.close()
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process as another user")


@contextmanager
def another_users_listener(port: int, address: str = "127.0.0.1") -> Iterator[list[str]]:
    """Listens on a port as another user. Yields the received data, a line each."""
    heard: list[str] = []
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENS, address, str(port), str(OTHER_USER)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "listening\n"
    reading = threading.Thread(target=lambda: heard.extend(process.stdout or ()))
    reading.start()
    try:
        yield heard
    finally:
        process.kill()
        process.wait()
        reading.join()
        process.stdout.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@as_root
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "0.0.0.0"])
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_key_that_was_found_is_not_sent_to_another_user(home: Path, address: str, name: str) -> None:
    keep_key(home / ".local/share/gradebox", "found")
    port = free_port()
    refused = pytest.raises(NotOurs, match=f"another user .number {OTHER_USER}. listens on port {port}")
    with another_users_listener(port, address) as heard, Client(f"http://{name}:{port}") as client, refused:
        client.projects.list()
    assert heard == []


@as_root
def test_a_client_that_waits_for_its_service_sends_no_key_to_who_took_the_port(home: Path) -> None:
    keep_key(home / ".local/share/gradebox", "found")
    asked: list[str] = []

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        asked.append(connection.recv(65536).decode())
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close"
        connection.sendall(head + b"\r\n\r\n[]")
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        client = Client(f"http://127.0.0.1:{port}")
        service = threading.Thread(target=answer, args=(ours,))
        service.start()
        assert client.projects.list() == []
        service.join()
    assert "Bearer found" in asked[0]
    with another_users_listener(port) as heard:
        client._transport.rules.auth.look_again()  # as after a second
        with pytest.raises(NotOurs):
            client.projects.list()
    assert heard == []
    client.close()


@as_root
def test_a_key_that_was_named_is_sent_whoever_listens(home: Path) -> None:
    keep_key(home / ".local/share/gradebox", "found")
    port = free_port()
    refused = pytest.raises(ConnectionFailed)
    with another_users_listener(port) as heard, Client(f"http://127.0.0.1:{port}", "named") as client, refused:
        client.projects.list()
    assert heard
    assert all("Bearer named" in line for line in heard)


def test_a_client_that_is_older_than_the_service_finds_its_key(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        rules = Rules(f"http://127.0.0.1:{ours.getsockname()[1]}", None, 5.0)
        sent: list[str | None] = []

        def answer(request: httpx.Request) -> httpx.Response:
            sent.append(request.headers.get("Authorization"))
            return httpx.Response(200)

        with httpx.Client(**rules.options(), transport=httpx.MockTransport(answer)) as client:
            client.get("/v1/me")
            keep_key(home / ".local/share/gradebox", "made-later")
            client.get("/v1/me")
            client.get("/v1/me")
    assert sent == [None, "Bearer made-later", "Bearer made-later"]
    assert rules.auth.key is not None and rules.auth.key.owner == os.getuid()


def test_where_nobody_listens_a_user_hears_so(home: Path) -> None:
    keep_key(home / ".local/share/gradebox", "found")
    with Client(f"http://127.0.0.1:{free_port()}") as client, pytest.raises(ConnectionFailed, match="gradebox serve"):
        client.projects.list()


def test_an_address_of_this_machine_is_that_very_address() -> None:
    with socket.create_server(("127.0.0.2", 0)) as listener:
        port = listener.getsockname()[1]
        assert Listeners(f"http://127.0.0.1:{port}", os.geteuid()).check()
        assert not Listeners(f"http://10.1.2.3:{port}", os.geteuid()).check()
    with socket.create_server(("::1", port), family=socket.AF_INET6):
        assert Listeners(f"http://[::1]:{port}", os.geteuid()).check()


def test_a_user_without_a_home_folder_hears_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # a number without an account, as in containers
    with pytest.raises(GradeboxError, match=r"no home folder, .*GRADEBOX_API_KEY"):
        Client(URL)
    assert Client(URL, "given")


def test_a_found_key_is_not_sent_where_nothing_shows_who_listens(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradebox.discovery._SOCKETS", home / "none")  # as on macOS
    keep_key(home / ".local/share/gradebox", "found")
    with Client(URL) as client, pytest.raises(NotOurs, match=r"only Linux shows .*GRADEBOX_API_KEY"):
        client.projects.list()
