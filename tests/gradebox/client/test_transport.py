"""Tests of the rules for requests and answers. test_client.py tests them with a real service."""

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import inf, nan
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from werkzeug.serving import make_ssl_devcert

from gradebox.client import key_auth, rules, slow_calls
from gradebox.client._async.transport import AsyncTransport
from gradebox.client._sync.transport import Transport
from gradebox.client.calls import access_calls, batch_calls, collection, grader_calls
from gradebox.client.calls.call import Call
from gradebox.client.key_auth import KeyAuth
from gradebox.client.line_readers import OutcomeReader, SentThreadReader
from gradebox.client.rules import Rules
from gradebox.client.thread_line import Thread
from gradebox.discovery import FoundKey
from gradebox.errors import (
    ApiError,
    ClientClosed,
    Conflict,
    ConnectionFailed,
    GradeboxError,
    NotAllowed,
    NotFound,
    OutcomesLost,
    TooLarge,
    ValidationError,
)
from tests.answering import answering
from tests.gradebox.making import JSON_LINES

LIST = grader_calls.list_graders("default")
URL = "http://127.0.0.1:8000"
Handler = Callable[[httpx.Request], httpx.Response]


def transport(handler: Handler, url: str = URL, key: str | None = "k", retry_s: float = rules.RETRY_S) -> Transport:
    return Transport(Rules(url, key, 5.0, retry_s), httpx.MockTransport(handler))


def send(awaits: bool, known: Rules, http: httpx.MockTransport | None, call: Call[Any]) -> None:
    """Sends a call by the client that blocks, or by the one that awaits."""
    asyncio.run(AsyncTransport(known, http).send(call)) if awaits else Transport(known, http).send(call)


def recorded(answer: httpx.Response) -> tuple[Handler, list[httpx.Request]]:
    """A handler that answers this, and its requests so far."""
    seen = list[httpx.Request]()

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answer

    return handler, seen


def lines(body: bytes) -> httpx.Response:
    return httpx.Response(200, headers=JSON_LINES, content=body)


def problem(status: int, name: str, **more: object) -> httpx.Response:
    type_ = f"urn:gradebox:problem:{name}"
    body = {"type": type_, "title": name, "status": status, "detail": "do this", "request_id": "r1"}
    return httpx.Response(status, json=body | more)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, without sleeping. Nothing else takes time."""
    slept = list[float]()
    monkeypatch.setattr("time.sleep", slept.append)
    for module in ("_sync.transport", "threads"):
        monkeypatch.setattr(f"gradebox.client.{module}.monotonic", lambda: sum(slept))
    return slept


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, NotAllowed), (403, NotAllowed), (404, NotFound), (409, Conflict), (410, OutcomesLost), (413, TooLarge),
     (415, ApiError)],
)  # fmt: skip
def test_a_problem_becomes_its_exception(status: int, kind: type[ApiError]) -> None:
    with pytest.raises(kind, match=r"do this .*request r1") as raised:
        transport(lambda _: problem(status, "some-name")).send(LIST)

    assert type(raised.value) is kind
    assert raised.value.status == status
    assert raised.value.type == "urn:gradebox:problem:some-name"


def test_a_failed_validation_names_the_check_and_what_to_do() -> None:
    check = {"name": "structure", "passed": False, "message": "write async def grade", "line": 3, "duration_ms": 1}
    answer = problem(422, "validation-failed", report={"valid": False, "checks": [check], "warnings": ["no network"]})

    told = r"'structure' failed \(line 3\): write async def grade\nwarning: no network$"
    with pytest.raises(ValidationError, match=told) as raised:
        transport(lambda _: answer).send(grader_calls.create_grader("default", {"key": "k", "source": ""}))

    assert raised.value.report.failed is not None


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        (httpx.Response(200, text="<html>"), "is the URL that of a gradebox service"),
        (httpx.Response(404, text="nginx"), "is the URL that of a gradebox service"),
        (httpx.Response(301, headers={"Location": "https://a.example/v1"}), "redirects to 'https://a.example/v1'"),
        (httpx.Response(407, text="squid"), "wants a user and a password"),
        (httpx.Response(413, html="nginx"), "client_max_body_size"),
        (httpx.Response(504, html="nginx"), "raise the proxy's timeout"),
    ],
)
def test_an_answer_that_is_not_gradeboxs_says_so(answer: httpx.Response, advice: str) -> None:
    with pytest.raises(ConnectionFailed, match=f"but not as gradebox does .*{advice}"):
        transport(lambda _: answer).send(LIST)


_PAGE = "<html>\n<body>Sign in\n"
SIGN_IN = httpx.Response(200, html=_PAGE)
UNTYPED, PLAIN = httpx.Response(200, content=_PAGE.encode()), httpx.Response(200, text=_PAGE)
REVOKE, TWO = access_calls.revoke_key("k"), batch_calls.threads_at("default", "b", [0, 1])


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        *((call, SIGN_IN) for call in (REVOKE, collection.graders.delete("default", "g"), TWO)),
        *((TWO, page) for page in (UNTYPED, PLAIN)),  # two lines, as of two threads
        *((REVOKE, httpx.Response(200, content=body)) for body in (b'{"login": true}', b"")),  # as nginx's `return 200`
        *((TWO, lines(body)) for body in (b"", b'{"id":', b'{"id": 1}\n', b'{"id": 1}\n{"id"', b"{}\n{}\n{}\n")),
    ],
)
def test_a_page_to_sign_in_or_other_threads_than_were_asked_for_are_no_answer(
    call: Call[object], answer: httpx.Response
) -> None:
    with pytest.raises(ConnectionFailed, match="answered 200, but not as gradebox does"):
        transport(lambda _: answer).send(call)


@pytest.mark.parametrize("page", [SIGN_IN, UNTYPED, PLAIN])
def test_a_page_to_sign_in_has_no_threads(page: httpx.Response) -> None:
    sender = transport(lambda _: page)
    with pytest.raises(ConnectionFailed, match="answered 200, but not as gradebox does"):
        next(sender.lines("/threads", SentThreadReader(None)))


def test_a_proxy_that_finds_nothing_does_not_say_that_a_batch_was_deleted() -> None:
    sender, _ = flaky(httpx.Response(502), httpx.Response(404, html="nginx"))
    with pytest.raises(ConnectionFailed, match="answered 404, but not as gradebox does"):
        sender.send(batch_calls.delete_batch("default", "b"))


def test_requests_carry_the_key_and_quoted_paths() -> None:
    handler, seen = recorded(httpx.Response(204))

    transport(handler, "http://127.0.0.1:8000/graders").send(collection.graders.delete("a:b", "x?y"))

    assert seen[0].headers["Authorization"] == "Bearer k"
    assert seen[0].url.raw_path == b"/graders/v1/projects/a%3Ab/graders/x%3Fy"


@pytest.mark.parametrize("service", ["http://127.0.0.1:8000", "https://teams.example/grade%20box", "http://[::1]:80/"])
@pytest.mark.parametrize(
    "call", [batch_calls.get_batch("ä:b?", "x y", 2.0), batch_calls.create_batch("p", {"a b@1": 1.0, "c&d": 0.5}, [])]
)
def test_a_request_goes_where_httpx_would_send_it(service: str, call: Call[object]) -> None:
    handler, seen = recorded(httpx.Response(404))
    for _ in range(2):
        with pytest.raises(GradeboxError):
            transport(handler, service).send(call)
    with httpx.Client(base_url=service) as plain:
        expected = plain.build_request(call.method, call.path, params=list(call.params) or None).url
    assert [request.url for request in seen] == [expected, expected]


def test_compression_is_asked_for_only_across_machines() -> None:
    for url, encoding in (("http://127.0.0.1:8000", "identity"), ("https://graders.example", "gzip, deflate")):
        handler, seen = recorded(httpx.Response(200, json=[]))
        transport(handler, url).send(LIST)
        assert seen[0].headers["Accept-Encoding"].startswith(encoding)


def test_a_batch_names_its_graders_and_their_weights_in_one_order() -> None:
    call = batch_calls.create_batch("default", {"a": 1.0, "b@2": 0.5}, [])
    assert list(call.params) == [("grader", "a"), ("grader", "b@2"), ("weight", "1.0"), ("weight", "0.5")]


def test_threads_join_the_other_members_of_a_body() -> None:
    body = grader_calls.score("p", "k", 3, [b'{"a":1}', b"{}"]).body
    assert json.loads(body or b"") == {"version": 3, "threads": [{"a": 1}, {}]}
    assert json.loads(grader_calls.score("p", "k", None, [b"{}"]).body or b"") == {"threads": [{}]}


def failing(*failures: httpx.Response | Exception) -> tuple[Handler, list[int]]:
    """A handler that answers once, fails in these ways, then answers; and a list that grows with each request."""
    plan: list[httpx.Response | Exception] = [httpx.Response(200, json=[]), *failures]
    count = list[int]()

    def handler(_: httpx.Request) -> httpx.Response:
        count.append(1)
        step = plan[len(count) - 1] if len(count) <= len(plan) else httpx.Response(200, json=[])
        if isinstance(step, Exception):
            raise step
        return step

    return handler, count


def flaky(*failures: httpx.Response | Exception, retry_s: float = rules.RETRY_S) -> tuple[Transport, list[int]]:
    """The same as a client that has had the first answer."""
    handler, count = failing(*failures)
    sender = transport(handler, retry_s=retry_s)
    sender.send(LIST)
    return sender, count


def test_what_may_be_sent_twice_is_tried_again(pauses: list[float]) -> None:
    sender, count = flaky(problem(503, "unavailable"), httpx.ReadError("reset"), httpx.ConnectError("refused"))

    assert sender.send(LIST) == []
    assert len(count) == 5
    assert pauses == sorted(pauses)


@pytest.mark.parametrize(("asked", "pause"), [("3", 3.0), ("9" * 12, 30.0)])
def test_the_service_says_how_long_to_wait(pauses: list[float], asked: str, pause: float) -> None:
    busy = problem(429, "busy")
    busy.headers["Retry-After"] = asked
    sender, _ = flaky(busy, retry_s=inf)

    sender.send(LIST)

    assert pauses == [pause]


@pytest.mark.parametrize("failure", [problem(503, "unavailable"), httpx.ReadError("reset")])
def test_what_may_not_be_sent_twice_is_not(failure: httpx.Response | Exception) -> None:
    sender, count = flaky(failure)
    with pytest.raises(GradeboxError):
        sender.send(access_calls.create_project("p"))
    assert len(count) == 2


@pytest.mark.parametrize(
    ("failure", "requests"),
    [
        (problem(504, "timeout"), 2),  # from the service: a retry would take as long again
        (httpx.Response(504, text="gateway"), 3),
        (problem(429, "too-many-requests"), 2),
        (problem(429, "queue-full"), 3),
    ],
)
def test_what_would_fail_again_is_not_tried_again(failure: httpx.Response, requests: int) -> None:
    sender, count = flaky(failure)
    try:
        sender.send(LIST)
    except ApiError as error:
        assert error.status == failure.status_code
    assert len(count) == requests


@pytest.mark.parametrize(
    "call",
    [
        lambda: grader_calls.create_grader("default", {"key": "k", "source": ""}),
        lambda: batch_calls.retry_batch("default", "b"),
    ],
)
def test_each_request_to_make_something_has_a_key_of_its_own(call: Callable[[], Call[object]]) -> None:
    handler, seen = recorded(problem(503, "unavailable"))
    for _ in range(2):
        with pytest.raises(ApiError):
            transport(handler).send(call())
    assert len(seen) > 12
    assert len({request.headers["Idempotency-Key"] for request in seen}) == 2


@pytest.mark.parametrize("failure", [httpx.ConnectError("refused"), httpx.ProxyError("503 Service Unavailable")])
def test_a_request_that_never_left_is_sent_again_whatever_it_is(failure: httpx.HTTPError) -> None:
    sender, count = flaky(failure)
    with pytest.raises(ConnectionFailed, match="not as gradebox does"):
        sender.send(access_calls.create_project("p"))  # the answer [] is not a project, but it is an answer
    assert len(count) == 3


def test_a_service_that_never_answered_is_not_waited_for(pauses: list[float]) -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(ConnectionFailed, match=r"\(refused\)\. Start one with `gradebox serve`") as raised:
        transport(refuse).send(LIST)
    assert pauses == []
    assert raised.value.__cause__ is raised.value.__context__ is None  # no traceback of httpx


def test_a_service_without_tls_is_told_from_none() -> None:
    with (
        answering(lambda: [b"HTTP/1.1 400 Bad Request\r\n\r\n"]) as url,
        pytest.raises(ConnectionFailed, match=f"speaks no TLS: try {url}"),
    ):
        Transport(Rules(url.replace("http", "https"), "k", 5.0)).send(LIST)


def test_a_certificate_of_an_own_authority_needs_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = make_ssl_devcert(str(tmp_path / "own"), host="localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)  # answers 501
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = f"https://localhost:{server.server_port}"
    with server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        with pytest.raises(ConnectionFailed, match=r"cannot be verified \(.*name the file .* with SSL_CERT_FILE"):
            Transport(Rules(url, "k", 5.0)).send(LIST)
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        with pytest.raises(ConnectionFailed, match="answered 501"):
            Transport(Rules(url, "k", 5.0)).send(LIST)
        server.shutdown()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("SSL_CERT_FILE", "/none", r"No such file .*SSL_CERT_FILE"),
        ("ALL_PROXY", "foo://u:secret@127.0.0.1", "Unknown scheme .*ALL_PROXY"),
        ("NO_PROXY", "fe80::/10", "NO_PROXY"),
        ("HTTPS_PROXY", "u:secret@127.0.0.1:1", r"the proxy 127\.0\.0\.1:1 does not connect .*NO_PROXY"),
    ],
)
@pytest.mark.parametrize("awaits", [False, True])
def test_proxies_and_certificates_that_cannot_be_used_are_named(
    name: str, value: str, told: str, awaits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(GradeboxError, match=told) as raised:
        send(awaits, Rules("https://gradebox.example", "k", 5.0), None, LIST)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(("retry_s", "least"), [(rules.RETRY_S, 5), (0, 0)])
def test_the_tries_have_an_end(pauses: list[float], retry_s: float, least: int) -> None:
    with pytest.raises(ApiError, match="do this"):
        transport(lambda _: problem(503, "unavailable"), retry_s=retry_s).send(LIST)
    assert len(pauses) >= least
    assert sum(pauses) == pytest.approx(retry_s)


def test_a_build_that_is_lost_is_not_waited_for(pauses: list[float]) -> None:
    with pytest.raises(ApiError, match="do this"):
        transport(lambda _: problem(503, "build-unusable"), retry_s=600).send(LIST)
    assert len(pauses) == 3  # another machine could have it


def test_the_tries_end_with_the_time_of_the_caller(pauses: list[float]) -> None:
    handler, seen = recorded(problem(503, "unavailable"))
    with pytest.raises(ApiError, match="do this"):
        transport(handler, retry_s=600).send(batch_calls.get_batch("default", "b", wait_s=2.0, within_s=3.0))
    waits = [request.extensions["timeout"]["read"] for request in seen]
    assert sum(pauses) == pytest.approx(3.0)
    assert waits[0] == pytest.approx(4.0)  # longer than the wait that was asked for: its answer comes after that
    assert waits == sorted(waits, reverse=True)  # a try that gets no answer ends a second late at most
    assert waits[-1] == 1.0


def test_the_tries_of_a_stream_that_brings_no_whole_line_have_an_end(pauses: list[float]) -> None:
    def part() -> Iterator[bytes]:
        assert len(pauses) < 50
        yield b'{"index":'
        raise httpx.ReadError("reset")

    sender = transport(lambda _: httpx.Response(200, headers=JSON_LINES, content=part()))
    with pytest.raises(ConnectionFailed, match="broke"):
        next(sender.lines("/outcomes", OutcomeReader(None)))


def test_a_service_that_is_away_for_long_is_waited_for_and_the_log_says_so(
    pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    sender, _ = flaky(*[httpx.ConnectError("refused")] * 25, retry_s=120)
    assert sender.send(LIST) == []
    assert 60 < sum(pauses) < 120.1
    [said] = [record.getMessage() for record in caplog.records if record.name == "gradebox"]
    assert said == "the service at http://127.0.0.1:8000 does not answer (refused). It is tried again, for up to 120 s"


@pytest.mark.parametrize(
    ("failure", "takes_s", "retry_s", "requests", "said"),
    [
        (httpx.ReadTimeout, 5, 5, 1, "longer than 5 s to answer"),
        (httpx.ReadTimeout, 5, 16, 4, "longer than 5 s to answer"),
        (httpx.ConnectTimeout, 4, rules.RETRY_S, 4, "no service answers"),  # the first, and those within ten seconds
    ],
)
def test_a_machine_that_is_away_is_waited_for_in_time(
    failure: type[httpx.TimeoutException], takes_s: float, retry_s: float, requests: int, said: str,
    pauses: list[float], caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Nothing refuses a connection there: an answer just does not come, in the seconds that each try takes."""
    count = list[int]()

    def handler(_: httpx.Request) -> httpx.Response:
        count.append(1)
        pauses.append(takes_s)
        raise failure("")

    sender = transport(handler, retry_s=retry_s)
    sender.rules.reached = True
    with pytest.raises(ConnectionFailed, match=said):
        sender.send(LIST)
    assert len(count) == requests
    assert len(caplog.records) == (requests > 1)


@pytest.mark.parametrize(
    ("failure", "requests"),
    [
        (httpx.ReadError("reset"), 5),  # at work: each of three outages is waited for, and no more of them
        (httpx.RemoteProtocolError("disconnected"), 5),
        (problem(503, "unavailable"), 5),  # the service stops
        (problem(503, "busy"), 3),  # a minute without a place is no work
        (httpx.Response(504, html="nginx"), 3),
        (httpx.ReadTimeout(""), 3),
    ],
)
def test_each_outage_is_waited_for(failure: httpx.Response | Exception, requests: int, pauses: list[float]) -> None:
    handler, count = failing(httpx.ConnectError("refused"), *[failure] * 9)

    def work(request: httpx.Request) -> httpx.Response:
        pauses.append(60.0 if len(count) > 1 else 0.0)
        return handler(request)

    sender = transport(work)
    sender.send(LIST)
    with pytest.raises(GradeboxError):
        sender.send(LIST)
    assert len(count) == requests
    assert max({*pauses} - {60.0}) <= 0.2  # each begins with a short one


def test_connections_that_soon_break_are_one_outage(pauses: list[float]) -> None:
    """A proxy in front of a service that is away breaks them."""
    handler, _ = failing(*[httpx.ReadError("reset")] * 99)

    def work(request: httpx.Request) -> httpx.Response:
        pauses.append(4.0)
        return handler(request)

    sender = transport(work)
    sender.send(LIST)
    with pytest.raises(GradeboxError):
        sender.send(LIST)
    assert sum(pauses[2:]) < 10.0 + 4.0  # from the first failure on


def test_what_an_upload_takes_is_no_outage(pauses: list[float]) -> None:
    class Slow(list[Thread]):
        def __iter__(self) -> Iterator[Thread]:
            pauses.append(60.0)
            return super().__iter__()

    handler, count = failing(*[httpx.Response(502, html="nginx")] * 9)
    sender = transport(handler)
    sender.send(LIST)
    with pytest.raises(GradeboxError):
        sender.send(batch_calls.create_batch("default", "a", Slow([{"completion": "x"}])))
    assert len(count) == 5


def test_a_busy_service_is_told_with_its_reason(pauses: list[float], caplog: pytest.LogCaptureFixture) -> None:
    sender = transport(lambda _: problem(503, "unavailable", detail="do this\x1b[2J"))
    with pytest.raises(ApiError):
        sender.send(LIST)
    [said] = [record.getMessage() for record in caplog.records if record.name == "gradebox"]
    assert said.startswith("the service at http://127.0.0.1:8000 answered 503: do this\\x1b[2J. It is tried again")


@pytest.mark.parametrize(("failure", "seconds"), [(httpx.ReadTimeout, 12), (httpx.WriteTimeout, 5)])
def test_an_answer_that_takes_too_long_says_what_to_do(failure: type[httpx.TimeoutException], seconds: int) -> None:
    def sleep(_: httpx.Request) -> httpx.Response:
        raise failure("")

    with pytest.raises(ConnectionFailed, match=rf"longer than {seconds} s to answer \({failure.__name__}\)") as raised:
        transport(sleep).send(batch_calls.get_batch("default", "b", wait_s=7))
    assert raised.value.__cause__ is raised.value.__context__ is None


@pytest.mark.parametrize("awaits", [False, True])
def test_an_answer_that_trickles_takes_too_long(awaits: bool) -> None:
    def parts() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n["
        for _ in range(39):
            threading.Event().wait(0.05)
            yield b" "

    told = r"longer than 0\.2 s to answer \(the answer trickles\)"
    with answering(parts) as url, pytest.raises(ConnectionFailed, match=told):
        send(awaits, Rules(url, "k", 0.2, retry_s=0), None, LIST)


@pytest.mark.parametrize("awaits", [False, True])
@pytest.mark.parametrize("takes_s", [0.0, 0.2])
def test_checks_that_take_long_are_told_of(
    takes_s: float, awaits: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def parts() -> Iterator[bytes]:
        threading.Event().wait(takes_s)
        yield b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"valid":true,"checks":[]}'

    monkeypatch.setattr(slow_calls, "_SLOW_S", 0.1)
    checked = grader_calls.validate("default", "async def grade(t): return 1")
    rules = Rules("http://127.0.0.1:9", "k", 5.0, retry_s=takes_s)
    rules.reached = True
    with pytest.raises(ConnectionFailed):
        send(awaits, rules, None, checked)  # nothing is checked
    with answering(parts) as url:
        send(awaits, Rules(url, "k", 5.0), None, checked)
    assert ["still being checked" in told for told in caplog.messages] == [True] * bool(takes_s)


def test_checks_need_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Timer, "start", Mock(side_effect=RuntimeError("can't start new thread")))
    with slow_calls.told_if_slow("slow"):  # as at the exit of Python 3.12
        pass


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://", "http://[::1"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConnectionFailed, match="is no"):
        Rules(url, "k", 5.0)


@pytest.mark.parametrize(
    "url", ["http://user:secret@host", "http://secret@", "http://:secret@host", "http://u:secret/@host"]
)
def test_a_password_in_the_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ConnectionFailed, match="leave them out") as raised:
        Rules(url, "k", 5.0)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "given", [{"timeout": 0.0}, {"timeout": inf}, {"timeout": nan}, {"retry_s": -1.0}, {"retry_s": nan}]
)
def test_what_is_no_time_is_refused(given: dict[str, float]) -> None:
    ((name, value),) = given.items()
    with pytest.raises(ValueError, match=f"{name}={value} is no number of seconds"):
        Rules(URL, "k", **{"timeout": 5.0, **given})


@pytest.mark.parametrize("key", ["schlüssel", "schluessel\n", "schluessel "])
def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(GradeboxError, match="API key") as raised:
        transport(lambda _: httpx.Response(200), key=key)
    assert "schl" not in str(raised.value)


def test_a_closed_client_says_that_it_is() -> None:
    sender = transport(lambda _: httpx.Response(200, json=[]))
    sender.send(LIST)
    sender.close()

    with pytest.raises(ClientClosed, match="this client is closed: make a new one"):
        sender.send(LIST)


@pytest.mark.parametrize("awaits", [False, True])
def test_a_call_that_closing_broke_says_that_the_client_is_closed(awaits: bool) -> None:
    def handler(_: httpx.Request) -> httpx.Response:
        sender.close()
        raise httpx.ReadError("[Errno 9] Bad file descriptor")

    async def handler_async(_: httpx.Request) -> httpx.Response:
        await async_sender.close()
        raise httpx.ReadError("")

    known, call = Rules(URL, "k", 5.0), access_calls.create_project("p")
    sender = Transport(known, httpx.MockTransport(handler))
    async_sender = AsyncTransport(known, httpx.MockTransport(handler_async))
    with pytest.raises(ClientClosed):
        asyncio.run(async_sender.send(call)) if awaits else sender.send(call)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, TimeoutError, pytest.fail.Exception])
def test_after_an_interrupt_the_next_call_has_new_connections(interrupt: type[BaseException]) -> None:
    """Handlers of SIGINT, SIGTERM and SIGALRM raise these; that of pytest-timeout, the last."""
    clients = list[httpx.Client]()

    def handler(_: httpx.Request) -> httpx.Response:
        clients.append(sender._connections.http)
        if len(clients) < 3:
            raise interrupt
        return httpx.Response(200, json=[])

    sender = transport(handler)
    with pytest.raises(interrupt):
        sender.send(LIST)
    with pytest.raises(interrupt):
        next(sender.lines("/outcomes", OutcomeReader(None)))
    assert sender.send(LIST) == []
    assert len({id(client) for client in clients}) == 3


def test_a_closed_client_that_awaits_says_that_it_is() -> None:
    sender = AsyncTransport(Rules(URL, "k", 5.0), httpx.MockTransport(lambda _: httpx.Response(200, json=[])))

    async def run() -> None:
        await sender.send(LIST)
        await sender.close()
        with pytest.raises(ClientClosed):
            await sender.send(LIST)

    asyncio.run(run())
    asyncio.run(run())  # another event loop has its own connections


def test_the_client_that_awaits_follows_the_same_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: float) -> None:
        pass

    handler, count = failing(problem(503, "unavailable"))
    sender = AsyncTransport(Rules(URL, "k", 5.0), httpx.MockTransport(handler))
    monkeypatch.setattr("gradebox.client._async.transport.asyncio.sleep", at_once)

    async def run(call: Call[list[object]]) -> list[object]:
        await sender.send(call)
        return await sender.send(call)

    assert asyncio.run(run(LIST)) == []  # type: ignore[arg-type]  # lists are invariant
    assert len(count) == 3


class _Grows(httpx.MockTransport):
    """Adds a line to the file before each body is read. The first answer is a 503."""

    def __init__(self, path: Path) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        self._path = path
        super().__init__(self._answered)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._grow()
        return super().handle_request(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._grow()
        return await super().handle_async_request(request)

    def _grow(self) -> None:
        with self._path.open("ab") as file:
            file.write(b'{"completion": "more"}\n')

    def _answered(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append((request.headers["Content-Length"], request.content))
        return problem(503, "unavailable") if len(self.bodies) == 1 else httpx.Response(200, json={})


@pytest.mark.parametrize("awaits", [False, True])
def test_each_try_sends_what_a_file_held_at_the_start(tmp_path: Path, awaits: bool) -> None:
    path, there = tmp_path / "threads.jsonl", b'{"completion": "4"}\n'
    path.write_bytes(there)
    grows = _Grows(path)
    send(awaits, Rules(URL, "k", 5.0), grows, Call("POST", "/batches", bytes, threads=path, once="once"))
    assert grows.bodies == [(str(len(there)), there)] * 2


class _OfModel:
    """Threads whose completions a model gives that does not answer."""

    def __getitem__(self, index: int) -> Thread:
        raise httpx.ConnectError("the model is away")


@pytest.mark.parametrize("awaits", [False, True])
def test_an_error_of_the_threads_is_not_taken_for_one_of_the_service(awaits: bool, pauses: list[float]) -> None:
    known = Rules(URL, "k", 5.0)
    known.reached = True
    reads = httpx.MockTransport(lambda request: httpx.Response(200, content=request.content))
    call = Call("POST", "/batches", bytes, threads=_OfModel(), once="once")  # type: ignore[arg-type]  # it is iterable
    with pytest.raises(httpx.ConnectError, match="the model is away"):
        send(awaits, known, reads, call)
    assert not pauses


def test_authorities_are_read_only_for_tls() -> None:
    for url in ("https://example.org", "HTTPS://example.org"):
        assert Rules(url, "key", 1.0).options()["verify"].cert_store_stats()["x509"]
    plain = Rules("http://127.0.0.1:1", "key", 1.0).options()["verify"]
    assert (plain.verify_mode, plain.check_hostname, plain.cert_store_stats()["x509"]) == (ssl.CERT_REQUIRED, True, 0)


def test_a_found_key_is_sent_only_with_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may find the key between two steps of this one."""
    auth = KeyAuth("http://127.0.0.1:1", None)
    monkeypatch.setattr(key_auth, "find_key", lambda _url: FoundKey("found", owner=0))

    class Found:
        def check(self) -> bool:
            return False

    monkeypatch.setattr(key_auth, "Listeners", lambda _url, _owner: Found())
    for _ in range(2):
        request = httpx.Request("GET", "http://127.0.0.1:1/")
        with pytest.raises(httpx.ConnectError, match="nothing on this machine listens"):
            next(auth.auth_flow(request))
        assert "Authorization" not in request.headers
