"""The permitted addresses of models. A tenant chooses the base URL, but the request is sent from inside the operator's
network. So the operator must allow the name, and every address it resolves to at the time of the ask.
"""

import ipaddress
import re
import socket
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from models.errors import AddressError
from models.settings import HOST, ModelSettings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

MOST_TRIED = 8  # addresses per name
_PORTS = {"http": 80, "https": 443}
_URL_CHARACTERS = 2000
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
# Addresses of cloud metadata services outside the ranges that are refused as a whole.
_METADATA = {
    ipaddress.ip_address(one)
    for one in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:42::42", "fd20:ce::254")
}
_THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")  # Linux treats 0.0.0.0 as this machine
_FUTURE_USE = ipaddress.ip_network("240.0.0.0/4")
# The last 32 bits of these are an IPv4 address: NAT64, the same with a local prefix, and IPv4-translated.
_TRANSLATED = [ipaddress.ip_network(one) for one in ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96")]
_COMPATIBLE = ipaddress.ip_network("::/96")


class BaseUrl(NamedTuple):
    """The parsed base URL of a model."""

    scheme: str
    host: str
    port: int
    url: str

    @property
    def label(self) -> str:
        """The host and port in a readable form."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def host_header(self) -> str:
        """The value of the header Host, which omits the scheme's default port."""
        return self.label.removesuffix(f":{_PORTS[self.scheme]}")


def read(base_url: str) -> BaseUrl:
    """Parse a base URL. Raises AddressError."""
    import httpx  # imported here, not when the API starts: it loads the packages of its own command line

    if len(base_url) > _URL_CHARACTERS or not base_url.isascii() or re.search(r"[\x00-\x20\x7f\\]", base_url):
        raise AddressError(f"the base URL is longer than {_URL_CHARACTERS} characters, or has other than visible ASCII")
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise AddressError("the base URL is not a URL: write it as in https://api.example.com/v1") from error
    host = url.raw_host.decode("ascii").lower().rstrip(".")
    if url.scheme not in _PORTS or not host:
        raise AddressError("the base URL does not begin with http:// or https:// and a host")
    if url.port is not None and not 0 < url.port < 65536:
        raise AddressError(f"{url.port} is no port")
    if url.userinfo:
        raise AddressError("the base URL has a user name or password: leave it out, and send the key as `api_key`")
    if "?" in base_url or "#" in base_url:
        raise AddressError("the base URL has a query or a fragment: leave it out")
    if "%" in host or (_NUMBER.fullmatch(host.rpartition(".")[2]) and _address(host) is None):
        raise AddressError(
            f"{host!r} is neither a name nor a complete address: write IPv4 addresses as four decimal numbers"
        )
    return BaseUrl(url.scheme, host, url.port or _PORTS[url.scheme], str(url).rstrip("/"))


class Policy:
    """The operator's rules on hosts and addresses."""

    def __init__(self, settings: ModelSettings) -> None:
        self._hosts = [match.groups() for host in settings.model_hosts if (match := HOST.fullmatch(host))]
        self._private = settings.model_private == "on"

    def check(self, base: BaseUrl) -> bool:
        """Return whether the host may have a private address. Raises AddressError if the operator does not allow the
        host."""
        if any(host != "*" and _is(host, port, base) for host, port in self._hosts):
            private = True
        elif any(host == "*" and port in (None, str(base.port)) for host, port in self._hosts):
            private = self._private
        else:
            raise AddressError(
                f"this service sends nothing to {base.label}: its operator lists the allowed hosts in "
                f"GRADEBOX_MODEL_HOSTS"
            )
        if (address := _address(base.host)) is not None:
            _check(base, address, private)
        return private


def find(host: str, port: int) -> Sequence[str]:
    """Resolve a name with the system's resolver. It blocks for as long as the name server takes."""
    return [str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


async def look_up(host: str, port: int) -> Sequence[str]:
    """As `find`, without blocking the event loop."""
    return await to_thread(find, host, port)


async def allowed(base: BaseUrl, policy: Policy, resolve: Resolve) -> list[str]:
    """Return the addresses to connect to, all of which are permitted.

    Raises:
        AddressError: the host or one of its addresses is not permitted.
        OSError: the name could not be resolved.
    """
    private = policy.check(base)
    found = list(dict.fromkeys(await resolve(base.host, base.port)))
    for text in found:
        address = _address(text)
        if address is None:
            raise AddressError(f"{base.host} stands for {text!r}, which is no address")
        _check(base, address, private)
    if not found:
        raise OSError(f"{base.host} has no address")
    return found[:MOST_TRIED]


def _check(base: BaseUrl, address: Address, private: bool) -> None:
    if is_never_asked(address):
        raise AddressError(
            f"{base.host} stands for {address}, which is never asked: link-local addresses, those of clouds' "
            "metadata, multicast and unspecified ones are refused whatever the operator allows"
        )
    if not private and not all(one.is_global for one in (address, *_inside(address))):
        raise AddressError(
            f"{base.host} stands for {address}, which is private: the operator can allow it by naming "
            f"{base.label} in GRADEBOX_MODEL_HOSTS"
        )


def is_never_asked(address: Address) -> bool:
    """Return whether the address, or one that it embeds, is link-local, a cloud's metadata service, multicast or
    unspecified."""
    return any(map(_is_refused, (address, *_inside(address))))


def _is_refused(address: Address) -> bool:
    if address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA:
        return True
    return isinstance(address, ipaddress.IPv4Address) and (address in _THIS_NETWORK or address in _FUTURE_USE)


def _inside(address: Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that an IPv6 address embeds."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in one for one in _TRANSLATED) or (address in _COMPATIBLE and int(address) > 1):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


def _is(host: str, port: str | None, base: BaseUrl) -> bool:
    """Whether an entry of the operator's list matches this host. Without a port it matches the scheme's default
    port."""
    if base.port != (int(port) if port else _PORTS[base.scheme]):
        return False
    if host.startswith("*."):
        return base.host.endswith(host[1:])
    named = _address(host.strip("[]"))
    return host == base.host if named is None else named == _address(base.host)


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
