"""The parts that both clients share: the URL of the service, and the rules for retries."""

import logging
import random
import ssl
import sys
from functools import lru_cache
from math import inf
from typing import Any, TypeVar
from urllib.request import getproxies, proxy_bypass

import httpx

from gradebox.client.answer_pace import PART_S
from gradebox.client.calls.call import Call, problem_of, refusal
from gradebox.client.key_auth import KeyAuth
from gradebox.discovery import FoundKey, find_key, is_local, service_url
from gradebox.errors import ConnectionFailed, GradeboxError, NotAllowed
from gradebox.schemas import Problem
from gradebox.terminal_text import plain

T = TypeVar("T")

RETRY_S = 10.0  # longer than a service takes to restart
MOST_TIMEOUT_S = 1_000_000  # more than any answer takes, and less than sockets can wait
FIRST_TRIES = 3
_TOLD_AT = 2  # the attempt that is logged: shorter outages are not worth a line, but a request that timed out is
MOST_PAUSE_S = 30.0  # as the service asks at most; another server may ask for years
CONNECT_S = 5.0
LAST_TRY_S = 1.0  # after the caller's time: the answer to a wait until its end comes a little later
KEEP_ALIVE_S = 3.0  # less than the 5 s after which servers close an idle connection, so that none is used as it closes
NOT_NOW = {429, 502, 503, 504}
# A wrong key stays wrong, a request that timed out would do so again, and a quota stays full until data is deleted.
NOT_AGAIN = ("too-many-requests", "timeout", "quota-exceeded")
OF_A_MACHINE = "build-unusable"  # another machine may answer a retry; waiting does not help
# The checks warn if scores may differ in the version of Python that sandboxes have.
_USER_AGENT = f"gradebox-python Python/{sys.version_info.major}.{sys.version_info.minor}"
_HAS_USER = (
    "the URL of the service has a user or a password before the @, which are not used: leave them out, and "
    "name the API key with GRADEBOX_API_KEY or api_key="
)

_log = logging.getLogger("gradebox")


class Rules:
    """The URL and the API key of the service, and the rules for retrying a failed request.

    If the service has never answered, the first failed connection raises. If it has answered before, it is probably
    restarting, and the request is retried.
    """

    def __init__(self, url: str | None, api_key: str | None, timeout: float, retry_s: float = RETRY_S) -> None:
        if not 0 < timeout <= MOST_TIMEOUT_S:
            raise ValueError(f"timeout={timeout} is no number of seconds above 0 and up to {MOST_TIMEOUT_S:,}")
        if not retry_s >= 0:
            raise ValueError(f"retry_s={retry_s} is no number of seconds from 0 on")
        self.url = service_url(url)
        self.timeout = timeout
        self.retry_s = retry_s
        self.reached = False
        _check_url(self.url)
        self.auth = KeyAuth(self.url, FoundKey(api_key) if api_key else find_key(self.url))

    def options(self) -> dict[str, Any]:
        """The arguments for an httpx client."""
        return {
            "base_url": self.url,
            "headers": _headers(self.url),
            "auth": self.auth,
            "timeout": httpx.Timeout(self.timeout, connect=CONNECT_S),
            "trust_env": not is_local(self.url),  # a proxy cannot reach this machine's loopback address
            # httpx's own default ignores SSL_CERT_FILE where it ignores proxies.
            "verify": httpx.create_ssl_context() if httpx.URL(self.url).scheme == "https" else _trusts_nobody(),
            "limits": httpx.Limits(keepalive_expiry=KEEP_ALIVE_S),
        }

    def request(self, call: Call[Any], size: int | None, left_s: float = inf) -> dict[str, Any]:
        """The arguments for `httpx.Client.request`, except a streamed body, which has `size` bytes if that is known.

        The caller waits for `left_s` more seconds.
        """
        read_s = min(self.timeout + call.work_s, max(left_s, 0.0) + LAST_TRY_S)
        return {
            "method": call.method,
            "url": _absolute(self.url, call.path, tuple(call.params)),
            "content": call.body,
            "headers": call.headers(size),
            "timeout": httpx.Timeout(min(self.timeout, read_s), connect=min(CONNECT_S, read_s), read=read_s),
            "extensions": {PART_S: read_s},
        }

    def pause(
        self, attempt: int, idempotent: bool, failure: httpx.Response | httpx.HTTPError, elapsed_s: float
    ) -> float | None:
        """Seconds to wait before the next try, or None if there is none. The outage has `attempt` failed tries before
        this one, and lasts for `elapsed_s` seconds.
        """
        left_s = self.retry_s - elapsed_s
        if isinstance(failure, httpx.HTTPError):
            self.auth.look_again()
        if left_s <= 0 or not self._again(attempt, idempotent, failure, left_s):
            return None
        if attempt == (0 if isinstance(failure, httpx.TimeoutException) else _TOLD_AT):
            _log.warning("%s. It is tried again, for up to %g s", self._reason(failure), self.retry_s)
        asked = failure.headers.get("Retry-After", "") if isinstance(failure, httpx.Response) else ""
        backoff = _backoff(attempt) * random.uniform(0.75, 1.0)  # noqa: S311  # spreads clients, hides nothing
        return min(left_s, max(backoff, min(float(asked), MOST_PAUSE_S)) if asked.isdecimal() else backoff)

    def _again(self, attempt: int, idempotent: bool, failure: httpx.Response | httpx.HTTPError, left_s: float) -> bool:
        if isinstance(failure, httpx.Response):
            self.reached = True
            return idempotent and failure.status_code in NOT_NOW and not _is_final(failure, attempt)
        if isinstance(failure, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
            return self.reached
        if isinstance(failure, httpx.ReadTimeout | httpx.WriteTimeout):  # perhaps the whole machine is away
            return idempotent and self.reached and _waited_s(failure) < left_s
        lost = isinstance(failure, httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError)
        # Before its first answer, the other side may not be a gradebox service: only a few retries.
        return lost and idempotent and (self.reached or attempt < FIRST_TRIES)

    def _reason(self, failure: httpx.Response | httpx.HTTPError) -> str:
        if isinstance(failure, httpx.Response):
            problem = problem_of(failure)
            told = f": {plain(problem.detail)}" if problem is not None else ""
            return f"the service at {self.url} answered {failure.status_code}{told}"
        return f"the service at {self.url} does not answer ({failure or type(failure).__name__})"

    def unreachable(self, error: httpx.HTTPError) -> ConnectionFailed:
        """The error if no try got an answer."""
        if "WRONG_VERSION_NUMBER" in str(error):  # of OpenSSL: the answer was no TLS
            without = self.url.replace("https:", "http:", 1)
            return ConnectionFailed(f"the service at {self.url} speaks no TLS: try {without}")
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return ConnectionFailed(
                f"the certificate of {self.url} cannot be verified ({error}). If an authority of your own signed it, "
                "name the file of that authority's certificate with SSL_CERT_FILE"
            )
        is_away = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        if (is_away or isinstance(error, httpx.ProxyError)) and (proxy := self._proxy()):
            return ConnectionFailed(
                f"the proxy {proxy} does not connect to {self.url} ({error}). Check HTTP_PROXY, HTTPS_PROXY and "
                "ALL_PROXY, or name the host in NO_PROXY to connect without a proxy"
            )
        if is_away:
            return ConnectionFailed(
                f"no service answers at {self.url} ({error}). Start one with `gradebox serve`, "
                "or name another with --url, url= or GRADEBOX_URL"
            )
        words = str(error) or type(error).__name__
        if isinstance(error, httpx.TimeoutException):
            return ConnectionFailed(
                f"the service at {self.url} took longer than {_waited_s(error):.3g} s to answer ({words}): "
                "try again, or give the client a longer timeout"
            )
        return ConnectionFailed(f"the connection to {self.url} broke ({words}): try again")

    def _proxy(self) -> str:
        """The host and port of the proxy that the environment names for the service; empty if there is none."""
        parsed, proxies = httpx.URL(self.url), getproxies()
        proxy = proxies.get(parsed.scheme) or proxies.get("all")
        if is_local(self.url) or not proxy or proxy_bypass(parsed.host):
            return ""
        return httpx.URL(proxy if "://" in proxy else f"http://{proxy}").netloc.decode()  # without user and password


def settle(call: Call[T], failure: httpx.Response | httpx.HTTPError, rules: Rules, tries: int) -> T:
    """The result of a call from the last of its tries. Raises GradeboxError."""
    if isinstance(failure, httpx.Response) and failure.status_code != httpx.codes.UNAUTHORIZED:
        gone = failure.status_code == httpx.codes.NOT_FOUND and problem_of(failure) is not None
        return call.read(b"") if call.gone_is_done and tries > 1 and gone else call.answer(failure)
    raise error_of(failure, rules)


def error_of(failure: httpx.Response | httpx.HTTPError, rules: Rules) -> GradeboxError:
    """The exception for the last try."""
    if isinstance(failure, httpx.Response):
        return _with_origin(refusal(failure), rules.auth.key)
    return rules.unreachable(failure)  # has httpx's words, and not its traceback of 60 lines


def _with_origin(error: GradeboxError, key: FoundKey | None) -> GradeboxError:
    """Adds the file of the key to a 401 error, if the client found the key in a file."""
    if not isinstance(error, NotAllowed) or error.status != httpx.codes.UNAUTHORIZED or key is None or not key.file:
        return error
    found = f"{error.detail}. The key was found in {key.file}: name the right one with GRADEBOX_API_KEY or --api-key"
    reported = {"type": error.type, "title": "Unauthorized", "status": error.status, "request_id": error.request_id}
    return NotAllowed(Problem(detail=found, **reported))


def _waited_s(error: httpx.TimeoutException) -> float:
    times: dict[str, float] = error.request.extensions["timeout"]
    return times["read" if isinstance(error, httpx.ReadTimeout) else "write"]


def _backoff(attempt: int) -> float:
    return min(5.0, 0.2 * float(2 ** min(attempt, 5)))


def _is_final(response: httpx.Response, attempt: int) -> bool:
    problem = problem_of(response)
    if problem is None:
        return False
    return problem.type.endswith(NOT_AGAIN) or (problem.type.endswith(OF_A_MACHINE) and attempt >= FIRST_TRIES)


@lru_cache(maxsize=64)
def _absolute(service: str, path: str, params: tuple[tuple[str, str], ...]) -> httpx.URL:
    """The URL of a request. It is cached, because building it takes nearly half of httpx's time for a request."""
    url = httpx.URL(service + path)
    return url.copy_merge_params(httpx.QueryParams(params)) if params else url


def _check_url(url: str) -> None:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        if "@" in url:  # such as a password with a slash, which ends the host and the port
            raise ConnectionFailed(_HAS_USER) from None
        raise ConnectionFailed(f"{url!r} is no URL ({error}): name the service as in http://127.0.0.1:8000") from error
    if parsed.userinfo:  # not sent, and shown by each error that names the URL
        raise ConnectionFailed(_HAS_USER)
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConnectionFailed(f"{url!r} is no http URL: name the service as in http://127.0.0.1:8000")


def _headers(url: str) -> dict[str, str]:
    headers = {"User-Agent": _USER_AGENT}
    if is_local(url):
        headers["Accept-Encoding"] = "identity"  # on one machine, compression costs more than it saves
    return headers


def _trusts_nobody() -> ssl.SSLContext:
    """For a service without TLS: reading the certificate authorities takes 25 ms, a tenth of a short command."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
