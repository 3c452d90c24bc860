"""Requests the description of an external reward server. A tenant chooses the URL, and the request comes from inside
the operator's network. Therefore only hosts listed by the operator are contacted, and only on the listed port.
"""

import ipaddress
import socket
from collections.abc import Sequence
from time import monotonic

import httpx
import msgspec

from models.addresses import is_never_asked

TIME_S = 5.0
ANSWER_BYTES = 64 * 1024
_DEFAULT_PORTS = {"http": 80, "https": 443}


class EndpointError(Exception):
    """The server was not contacted, or is not a valid reward server. The message quotes nothing of its answer."""


class EndpointInfo(msgspec.Struct, frozen=True):
    """The description of a reward server."""

    name: str
    version: str
    description: str


def ask(url: str, allowed: Sequence[str]) -> EndpointInfo:
    """Requests `/info` from the reward server at this URL.

    Args:
        url: base URL of the server; `/info` is added.
        allowed: hosts that may be contacted: `host` for the scheme's default port, or `host:port`.

    Raises:
        EndpointError: the host is not allowed, could not be reached, or gave another answer.
    """
    target = _target(url, allowed)
    address = _address(target.host, target.port or _DEFAULT_PORTS[target.scheme])
    # Connect to the address that was checked: a second look-up might return another one.
    pinned = target.copy_with(host=address, path=f"{target.path.rstrip('/')}/info")
    try:
        body = _get(pinned, target)
    except httpx.HTTPError as error:
        raise EndpointError(f"{target.host} could not be asked ({type(error).__name__}): check that it runs") from error
    try:
        return msgspec.json.decode(body, type=EndpointInfo)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EndpointError("its /info is not that of a reward server: {name, version, description}") from error


def _target(url: str, allowed: Sequence[str]) -> httpx.URL:
    try:
        target = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise EndpointError(f"{url[:200]!r} is no URL: {error}") from error
    if target.scheme not in _DEFAULT_PORTS or not target.host:
        raise EndpointError(f"{url[:200]!r} is no address of a reward server: it begins with http:// or https://")
    name = target.host.lower() if target.port is None else f"{target.host.lower()}:{target.port}"
    if name not in {one.lower() for one in allowed}:
        raise EndpointError(
            f"this service does not call {name}: it calls only hosts that its operator lists in "
            "GRADEBOX_ALLOWED_ENDPOINTS. The grader can still be saved"
        )
    return target.copy_with(query=None, fragment=None)


def _address(host: str, port: int) -> str:
    """Resolves the host. A listed name must not resolve to this machine or to a cloud's metadata service."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise EndpointError(f"{host} has no address: check the name") from error
    address = ipaddress.ip_address(str(found[0][4][0]).partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    named = host in (str(address), "localhost")
    if is_never_asked(address) or (address.is_loopback and not named):
        raise EndpointError(f"{host} resolves to {address}, which is never called")
    return str(address)


def _get(pinned: httpx.URL, target: httpx.URL) -> bytes:
    ends = monotonic() + TIME_S
    headers = {"Host": target.netloc.decode(), "Accept-Encoding": "identity"}
    with (
        httpx.Client(timeout=TIME_S, trust_env=False) as client,
        client.stream("GET", pinned, headers=headers, extensions={"sni_hostname": target.host}) as response,
    ):
        if response.status_code != httpx.codes.OK:
            raise EndpointError(f"its /info answers with status {response.status_code} instead of 200")
        body = b""
        for piece in response.iter_raw():
            body += piece
            if len(body) > ANSWER_BYTES or monotonic() > ends:
                raise EndpointError(f"its /info is longer than {ANSWER_BYTES} bytes, or takes more than {TIME_S:g} s")
        return body
