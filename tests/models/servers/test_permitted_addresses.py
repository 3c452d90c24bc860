"""Tests of the allowed addresses of models, with all known ways to evade the check."""

import asyncio
from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from models.errors import AddressError
from models.servers.permitted_addresses import Policy, allowed, read
from models.settings import ModelSettings


def policy(hosts: str, private: str = "off") -> Policy:
    return Policy(ModelSettings.model_validate({"model_hosts": hosts, "model_private": private}))


def found(url: str, addresses: Sequence[str], hosts: str = "*", private: str = "off") -> list[str]:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return addresses

    return asyncio.run(allowed(read(url), policy(hosts, private), resolve))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://api.example.com/v1",
        "http+unix://%2Fvar%2Frun%2Fdocker.sock/v1",
        "file:///etc/passwd",
        "api.example.com/v1",
        "http://",
        "http://user@api.example.com/v1",
        "http://api.example.com:pw@127.0.0.1/v1",
        "https://api.example.com/v1?key=abc",
        "https://api.example.com/v1#a",
        "http://127.1/v1",
        "http://2130706433/v1",
        "http://0x7f000001/v1",
        "http://0x7f.1/v1",
        "http://0177.0.0.1/v1",
        "http://[fe80::1%25eth0]/v1",
        "http://a b/v1",
        "http://a\\@b/v1",
        "http://exämple.com/v1",
        "http://example.com:99999/v1",
        f"http://example.com/{'a' * 2000}",
    ],
)
def test_what_is_no_base_url(url: str) -> None:
    with pytest.raises(AddressError) as error:
        read(url)
    assert "pw" not in str(error.value)
    assert "abc" not in str(error.value)


NEVER = [
    "169.254.169.254", "169.254.170.2", "fe80::1", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "fd00:ec2::254",
    "100.100.100.200", "168.63.129.16", "0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "ff02::1", "255.255.255.255",
    "2002:a9fe:a9fe::1", "64:ff9b::a9fe:a9fe", "::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:fffe::a9fe:a9fe", "::ffff:0:a9fe:a9fe",
]  # fmt: skip


@pytest.mark.parametrize("address", NEVER)
def test_addresses_that_are_never_asked_whatever_is_allowed(address: str) -> None:
    with pytest.raises(AddressError, match="never asked"):
        found("http://model.example.com/v1", [address], "*,model.example.com,*.example.com", "on")
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(AddressError, match="never asked"):
        policy(f"{host},*", "on").check(read(f"http://{host}/v1"))


PRIVATE = [
    "127.0.0.1", "127.9.9.9", "::1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "fd00::1",
    "::ffff:10.0.0.1", "64:ff9b::a00:1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_need_the_operators_word(address: str) -> None:
    url = "http://model.example.com:8000/v1"
    with pytest.raises(AddressError, match="is private"):
        found(url, [address])
    assert found(url, [address], "model.example.com:8000") == [address]
    assert found(url, [address], "*.example.com:8000") == [address]
    assert found(url, [address], "*", "on") == [address]


def test_every_address_of_an_answer_is_looked_at() -> None:
    assert found("https://api.example.com/v1", ["93.184.216.34", "2606:2800:220:1::1"]) == [
        "93.184.216.34", "2606:2800:220:1::1"
    ]  # fmt: skip
    with pytest.raises(AddressError):
        found("https://api.example.com/v1", ["93.184.216.34", "10.0.0.1"])
    with pytest.raises(OSError, match="no address"):
        found("https://api.example.com/v1", [])


@pytest.mark.parametrize(
    ("hosts", "url", "fits"),
    [
        ("", "https://api.example.com/v1", False),
        ("api.example.com", "https://api.example.com/v1", True),
        ("api.example.com", "https://API.example.com./v1", True),
        ("api.example.com", "https://api.example.com:8443/v1", False),
        ("api.example.com", "https://api.example.com.evil.org/v1", False),
        ("api.example.com", "https://xapi.example.com/v1", False),
        ("*.example.com:8000", "http://a.b.example.com:8000/v1", True),
        ("*.example.com", "https://example.com/v1", False),
        ("*.example.com", "https://evilexample.com/v1", False),
        ("[::1]:8000", "http://[0:0:0:0:0:0:0:1]:8000/v1", True),
        ("10.0.0.1", "http://10.0.0.1/v1", True),
        ("*:8000", "http://api.example.com:8000/v1", True),
        ("*:8000", "http://api.example.com/v1", False),
    ],
)
def test_the_operator_names_hosts(hosts: str, url: str, fits: bool) -> None:
    if fits:
        policy(hosts).check(read(url))
    else:
        with pytest.raises(AddressError, match="GRADEBOX_MODEL_HOSTS"):
            policy(hosts).check(read(url))


def test_a_list_of_hosts_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError, match="is not a host"):
        policy("https://api.example.com")
