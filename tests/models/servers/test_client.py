"""Tests of the model client through real sockets, with all known misbehaviors of servers."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic, process_time

import msgspec
import pytest

from examples.model_server import ModelServer, Script
from gradebox.outcome import Spent
from gradebox.schemas import ModelFault, ModelTrial
from models.errors import AskFailed, TokenUsage
from models.replies.chat_completion import ServerReply
from models.replies.error_answers import refusal, reported
from models.servers.client import ModelClient
from models.servers.permitted_addresses import look_up
from models.servers.pinned_http import PinnedHttp
from models.servers.server_trials import of_model
from models.settings import ModelSettings
from storage.models.models import RegisteredModel
from storage.models.registry import Access
from tests.models.registered import model_at

HERE = ModelSettings(model_hosts=("*",), model_private="on", model_reply_kb=1024, model_connect_s=2)
KEY = "sk-very-secret-of-a-model-0123456789"
QUESTION = [{"role": "user", "content": "?"}]


def access(server: ModelServer, model: str = "m", timeout_s: float = 5) -> Access[RegisteredModel]:
    return model_at(server.base_url, KEY, model=model, timeout_s=timeout_s, defaults={"temperature": 0})


def chat(to: Access[RegisteredModel], settings: ModelSettings = HERE) -> ServerReply:
    async def main() -> ServerReply:
        async with ModelClient(to, settings) as client:
            return await client.chat(QUESTION)

    return asyncio.run(main())


def fault(to: Access[RegisteredModel], settings: ModelSettings = HERE) -> ModelFault:
    with pytest.raises(AskFailed) as raised:
        chat(to, settings)
    assert KEY not in str(raised.value)
    assert KEY not in repr(raised.value)
    return raised.value.fault


def test_a_reply(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-the-operator")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-operator")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert chat(access(server)) == ServerReply('{"answer": "yes"}', "stop", False, TokenUsage(10, 5))
    assert server.bodies == [{"model": "m", "messages": QUESTION, "temperature": 0}]
    sent = {name.lower(): value for name, value in server.headers[0].items()}
    assert sent["authorization"] == f"Bearer {KEY}"
    assert sent["host"] == f"127.0.0.1:{server.server_address[1]}"
    known = "accept accept-encoding authorization content-length content-type host user-agent"
    assert set(sent) <= set(known.split())


def test_a_connection_is_used_again_until_a_server_might_close_it(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, accepted = server.get_request, []

    def accept_and_count() -> object:
        accepted.append(accept())
        return accepted[-1]

    async def main() -> None:
        async with ModelClient(access(server), HERE) as client:
            for idle_s in (0, 0.5, 4.5):
                await asyncio.sleep(idle_s)
                await client.chat(QUESTION)

    monkeypatch.setattr(server, "get_request", accept_and_count)
    asyncio.run(main())
    assert len(accepted) == 2


def test_what_a_server_sends_after_an_answer_is_not_the_answer_to_the_next_request() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for told in (await reader.readexactly(1), b"!"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + told)
            await asyncio.sleep(0.05)

    async def main() -> list[bytes]:
        found = list[bytes]()
        server = await asyncio.start_server(answer, "127.0.0.1")
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with PinnedHttp(url, {}, 4, HERE, look_up) as http:
            for sent in (b"1", b"2"):
                found.append((await http.post("/", sent, 5)).body)
                await asyncio.sleep(0.1)
        server.close()  # not `async with`, which in Python 3.12 waits until `answer` closes its connections
        return found

    assert asyncio.run(main()) == [b"1", b"2"]


def test_no_key_is_no_header(server: ModelServer) -> None:
    chat(replace(access(server), api_key=""))
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize(
    ("behaviour", "kind", "retryable", "said"),
    [
        ("status:401", "refused", False, ""),
        ("status:404", "unknown", False, ""),
        ("status:422", "refused", False, ""),
        ("status:429", "rate_limited", True, ""),
        ("status:503", "unreachable", True, ""),
        ("cut-off", "cut_off", False, ""),
        ("no-choices", "invalid_reply", False, ""),
        ("huge", "invalid_reply", False, "longer than"),
        ("deep", "invalid_reply", False, ""),
        ("gzip", "invalid_reply", False, "compressed"),
        ("half", "unreachable", True, ""),
        ("huge-headers", "unreachable", True, ""),
        ("echo-key", "refused", False, ""),
        ("deep-error", "refused", False, ""),
    ],
)
def test_each_failure_has_its_kind(server: ModelServer, behaviour: str, kind: str, retryable: bool, said: str) -> None:
    began = monotonic()
    found = fault(access(server, f"behave:{behaviour}"))
    assert (found.kind, found.retryable) == (kind, retryable), found
    assert said in found.message
    assert ": " in found.message or "because it is" in found.message  # advice
    assert len(server.bodies) == 1  # no retries
    assert monotonic() - began < 5


def test_no_redirect_is_followed(server: ModelServer) -> None:
    with ModelServer(Script(behave="redirect", location=f"{server.base_url}/chat/completions")) as first:
        assert fault(access(first)).kind == "refused"
        assert len(first.bodies) == 1
    assert server.bodies == []


@pytest.mark.parametrize("behaviour", ["hang", "drip"])
def test_time_is_bounded_over_all(server: ModelServer, behaviour: str) -> None:
    began = monotonic()
    found = fault(access(server, f"behave:{behaviour}", timeout_s=1))
    assert (found.kind, found.retryable) == ("unreachable", True)
    assert "within 1 s" in found.message
    assert 0.9 < monotonic() - began < 4


@pytest.mark.parametrize(
    ("retry_after", "date", "seconds"),
    [
        ("7", "", 7),
        ("nan", "", None),
        ("Wed, 21 Oct 2099 07:28:00 GMT", "", 3600),
        ("Wed, 21 Oct 2099 07:28:00 GMT", "Wed, 21 Oct 2099 07:27:30 GMT", 30),  # of a server with another clock
        ("Wed, 21 Oct 2009 07:28:00 GMT", "Wed, 21 Oct 2009 07:27:30 GMT", 30),
        ("Mon, 01 Jan 99999999999999 00:00:00 GMT", "", None),
        ("Mon, 01 Jan 2020 99999999999999999999:0 GMT", "", None),
    ],
)
def test_a_pause_that_a_server_asks_for(retry_after: str, date: str, seconds: float | None) -> None:
    headers = {"retry-after": retry_after, "date": date}
    assert refusal(503, headers, b"{}", (KEY,)).fault.retry_after_s == seconds


def test_a_place_that_is_not_allowed_is_not_asked(server: ModelServer) -> None:
    assert fault(access(server), ModelSettings(model_hosts=("*",), model_private="off")).kind == "refused"
    assert fault(access(server), ModelSettings(model_hosts=(), model_private="on")).kind == "refused"
    assert server.bodies == []


def test_a_name_that_is_rebound_is_asked_at_the_address_that_was_checked(server: ModelServer) -> None:
    """The first look-up returns this server; later ones include the address of a cloud's metadata service."""
    answers = iter([["127.0.0.1"], ["169.254.169.254"], ["93.184.216.34", "169.254.169.254"]])

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return next(answers)

    async def main() -> list[object]:
        to = model_at(f"http://model.example.com:{server.server_address[1]}/v1", KEY)
        seen: list[object] = []
        async with ModelClient(to, HERE, resolve) as client:
            seen.append(await client.chat(QUESTION))
            for _ in range(2):
                with pytest.raises(AskFailed, match="never asked") as raised:
                    await client.chat(QUESTION)
                seen.append(raised.value.fault.kind)
        return seen

    assert asyncio.run(main())[1:] == ["refused", "refused"]
    assert len(server.bodies) == 1
    assert server.headers[0]["Host"] == f"model.example.com:{server.server_address[1]}"


def test_the_next_address_is_tried_where_one_takes_no_connection(server: ModelServer) -> None:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.77", "127.0.0.1"]

    async def main() -> ServerReply:
        to = model_at(f"http://model.example.com:{server.server_address[1]}/v1", KEY)
        async with ModelClient(to, HERE, resolve) as client:
            return await client.chat(QUESTION)

    assert asyncio.run(main()).finish_reason == "stop"


def test_a_key_that_a_server_repeats_is_in_no_log(server: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert "[API key]" in fault(access(server, "behave:echo-key")).message
    assert KEY not in caplog.text
    assert KEY not in repr(access(server))


def tried(script: Script) -> tuple[ModelTrial, list[tuple[int, int]]]:
    """The trial of such a server, and the tokens of each ask that it counts."""
    counted: list[Spent] = []

    async def count(spent: Spent) -> None:
        counted.append(spent)

    with ModelServer(script) as server:
        found = asyncio.run(of_model(access(server), HERE, count))
    assert all(one.asks == 1 for one in counted)
    return found, [(one.input_tokens, one.output_tokens) for one in counted]


@pytest.mark.parametrize(
    ("script", "usages", "able"),
    [
        (Script(), [(10, 5)] * 3, (True, True)),
        (Script(schemas=False, logprobs=False), [(10, 5), (0, 0), (10, 5)], (False, False)),
        (Script(reply="yes", logprobs=False), [(10, 5)] * 3, (True, False)),
    ],
)
def test_a_trial_tells_what_a_server_can_do_and_counts_each_ask(
    script: Script, usages: list[tuple[int, int]], able: tuple[bool, bool]
) -> None:
    found, counted = tried(script)
    assert found.passed, found
    assert (found.structured_output, found.logprobs) == able
    assert counted == usages


def test_a_reply_that_repeats_the_key_is_not_shown_whole() -> None:
    found, _ = tried(Script(behave="say-key"))
    assert (found.passed, found.reply, found.structured_output) == (True, "Bearer [API key]", False)


def test_a_part_of_the_key_at_an_end_is_not_told() -> None:
    for size in range(16_370, 16_400):  # some end in the middle of a key where the text is cut
        assert KEY[:8] not in reported((KEY * 600)[:size].encode(), (KEY,))
    assert reported(f"you sent {KEY[:20]}".encode(), (KEY,)) == "you sent [API key]"
    assert reported(b"5 words", ("5",)) == "5 words"  # a placeholder


def test_secrets_that_begin_alike_or_hold_quotes_are_removed_whole() -> None:
    secrets = ("sk-proj-1111", "sk-proj-2222-and-more", 'Digest user="me", response="0123456789"')
    for secret in (*secrets, "sk-proj-2222-and"):
        assert reported(secret.encode(), secrets) == "[API key]"
        assert reported(msgspec.json.encode(secret), secrets) == '"[API key]"'
    assert reported(b"x-of-some-team-12345678", ("x-of-some-team", "team-12345678")) == "[API key]"  # they overlap


@pytest.mark.parametrize("escaped", [r"\/", r"\u002F", r"\u002f", r"\\/", r"\\u002f"])
def test_secrets_are_removed_in_whatever_way_json_has_them(escaped: str) -> None:
    secret = "c2VjcmV0/LW9m/LWE="
    body = f'{{"error": "a\\nb {secret.replace("/", escaped)} c"}}'
    assert reported(body.encode(), (secret,)) == '{"error": "a\\nb [API key] c"}'


@pytest.mark.parametrize(
    ("secrets", "body"),
    [
        (("q" * 8 + "a" * 4000, "a" * 4000, "q" * 8 + "a" * 4000 + "b", "a" * 4000 + "b"), (b"a" * 3990 + b"z") * 4),
        (("[API key]",), b"[API key]" * 1800),
        (("a" * 4096,), b"z".join(b"a" * size for size in range(8, 180))),
        (tuple(f"{'a' * 200}{number}" for number in range(40)), b"a" * 16_384),
        (
            tuple(f"{n:08}" + r"\"" * 240 for n in range(32)),
            b"".join(b"%08d" % n + rb"\"" * size for size in range(20) for n in range(32)),
        ),
        (('"\\' * 2000 + "1", '\\"' * 2000 + "2"), rb"\"\\" * 4000),
    ],
    ids=["long", "cut", "pieces", "many", "headers", "quotes"],
)
def test_secrets_are_found_at_once_in_any_answer(secrets: tuple[str, ...], body: bytes) -> None:
    """Answers are read on the event loop of all projects. It took 0.2 s."""
    began = process_time()
    reported(body, secrets)
    assert process_time() - began < 0.03


def test_a_trial_that_failed_says_why() -> None:
    found, counted = tried(Script(api_key="another"))
    assert not found.passed
    assert counted == [(0, 0)]
    assert found.error is not None and found.error.kind == "refused"
    assert "check the API key" in found.error.message
    found, _ = tried(Script(behave="prose"))
    assert (found.passed, found.structured_output) == (True, False)
