import httpx
import pytest

from api.access.failed_keys import FailedKeys
from api.http.problems import ProblemError
from tests.api.conftest import PROJECT, Service, problem


@pytest.fixture
def few(service: Service, monkeypatch: pytest.MonkeyPatch) -> int:
    """Sets and returns the number of wrong keys that the service accepts from an address."""
    monkeypatch.setattr(service.services, "failed_keys", FailedKeys(3))
    return 3


def wrong(service: Service, key: str = "gbx_0123_wrong") -> httpx.Response:
    return httpx.get(f"{service.url}{PROJECT}/graders", headers={"Authorization": f"Bearer {key}"})


def test_wrong_keys_make_an_address_wait_but_no_right_key(service: Service, client: httpx.Client, few: int) -> None:
    for _ in range(few):
        problem(wrong(service), 401, "unauthorized")
    response = wrong(service)
    assert "wrong API keys" in problem(response, 429, "too-many-requests")
    assert 1 <= int(response.headers["retry-after"]) <= 60
    assert client.get(f"{PROJECT}/graders").status_code == 200


def test_to_send_no_key_is_no_wrong_key(service: Service, few: int) -> None:
    for _ in range(few + 2):
        problem(httpx.get(f"{service.url}{PROJECT}/graders"), 401, "unauthorized")


def test_addresses_are_counted_apart() -> None:
    failed = FailedKeys(1)
    failed.count("192.0.2.1")
    failed.count("192.0.2.2")
    failed.count("2001:db8::1")
    failed.count("2001:db8:0:1::1")
    for address in ("192.0.2.1", "2001:db8::2"):  # IPv6 counts by network: a client has many addresses
        with pytest.raises(ProblemError, match="wait"):
            failed.count(address)
