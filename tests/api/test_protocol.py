import socket

import httpx

from tests.api.conftest import Service


def test_a_head_without_end_is_cut_off(service: Service) -> None:
    url = httpx.URL(service.url)
    with socket.create_connection((url.host, url.port or 80), timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: ")
        answer = b""
        try:
            for _ in range(100):
                connection.sendall(b"x" * 65_536)
            while block := connection.recv(4096):
                answer += block
        except ConnectionError:
            return
        assert answer.startswith(b"HTTP/1.1 400")


def test_a_head_of_usual_length_is_taken(service: Service) -> None:
    assert httpx.get(service.url + "/healthz", headers={"X-Long": "x" * 8000}).status_code == 200
