"""Tests of the answers to graders' asks, through real sockets and a real Redis."""

import json
import resource
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic, process_time, sleep
from typing import Any, Unpack

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from examples.model_server import ModelServer, Script
from gradebox.asks.asking import encoded
from gradebox.asks.model import choice_schema
from gradebox.outcome import Spent, sum_of
from gradebox.schemas import ModelDefaults, ModelTrial, Spending
from models import store_calls
from models.asks import server_asks, server_connections
from models.asks.ask_context import AskContext
from models.asks.ask_counts import AskCounts
from models.asks.asker import Asker
from models.asks.validation_timeouts import ValidationTimeouts
from models.errors import AskFailed
from models.replies import chat_completion, error_answers
from models.replies.answer_json import Answer
from models.servers import client_cache
from models.servers.client_cache import Clients
from models.settings import ModelSettings
from storage import redis_keys
from storage.access.audit import Audit
from storage.connection import check_format, connect
from storage.models import spending
from storage.models.kept_replies import Keeping
from storage.models.models import LimitFields, RegisteredModel
from storage.models.registry import Access
from storage.models.spending import Budget, SpendingStore
from storage.spool.spool import Spool
from storage.store import Store
from tests.conftest import redis_server
from tests.processes import printed
from tests.storage.making import spent_by_batch
from tests.waiting import eventually

HERE = ModelSettings(model_hosts=("*",), model_private="on", model_reply_kb=1024, model_connect_s=2)
KEY = "sk-very-secret-of-a-model-0123456789"
ASKS = {"model:judge": "", "model:none": "", "endpoint:reward": "", "grader:other": "other@3"}
REWARD = b'{"ask":"endpoint","name":"reward","thread":{"messages":[{"role":"user","content":"?"}]}}'
CONTEXT = AskContext("default", "polite", "polite@1", asks=ASKS)


@pytest.fixture
def asker(store: Store) -> Iterator[Asker]:
    asker = Asker(store, HERE)
    yield asker
    asker.close()


@contextmanager
def asking(store: Store, ask_s: float = 30) -> Iterator[Asker]:
    """Yields another asker, like one of another process."""
    asker = Asker(store, HERE, ask_s=ask_s)
    try:
        yield asker
    finally:
        asker.close()


def later() -> AskContext:
    """The grader in a call that begins now."""
    return CONTEXT._replace(since=monotonic())


def register(
    store: Store, server: ModelServer, model: str = "m", timeout_s: float = 5, **limits: Unpack[LimitFields]
) -> None:
    defaults = ModelDefaults(temperature=0)
    store.models.create("default", "judge", server.base_url, model, KEY, defaults, timeout_s, **limits)


def running(store: Store, batch: str) -> str:
    """A batch that is scored, of which this is all that asks see."""
    store.redis.hset(redis_keys.batch(batch), "state", "running")
    return batch


def request(text: str = "?", **members: Any) -> bytes:
    asked = {"ask": "model", "name": "judge", "messages": [{"role": "user", "content": text}], "sample": 0, **members}
    return json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def told(asker: Asker, sent: bytes, context: AskContext = CONTEXT) -> tuple[dict[str, Any], Spent]:
    answer = asker.ask(sent, context, lambda: True).result(30)
    assert KEY.encode() not in answer.body
    assert b"127.0.0.1" not in answer.body
    return json.loads(answer.body), answer.spent


def error(asker: Asker, sent: bytes, context: AskContext = CONTEXT) -> dict[str, Any]:
    found = told(asker, sent, context)[0]["error"]
    assert isinstance(found, dict)
    return found


def test_a_model_is_asked(store: Store, server: ModelServer, asker: Asker) -> None:
    register(store, server)
    body, spent = told(asker, request(max_tokens=9))
    reply = {"text": '{"answer": "yes"}', "finish_reason": "stop", "usage": {"input_tokens": 10, "output_tokens": 5}}
    assert body == {"reply": reply}
    assert spent == Spent(1, 0, 10, 5, 0.0)
    messages = [{"role": "user", "content": "?"}]
    assert server.bodies == [{"model": "m", "messages": messages, "temperature": 0, "max_tokens": 9}]


def test_half_an_emoji_in_a_reply_is_the_text_of_its_escape(store: Store, asker: Asker) -> None:
    """The whole reply was invalid, and the advice was to check the base URL."""
    reply = "cut \ud83d, \ude00\ud83d\ude00 \ud83d\ud83d\ude00 and \\ud83d\ude00\\\ud83d"
    with ModelServer(Script(reply=reply)) as server:
        register(store, server)
        text = told(asker, request())[0]["reply"]["text"]
    assert text == r"cut \ud83d, \ude00😀 \ud83d😀 and \ud83d\ude00\\ud83d"


def test_only_what_the_version_names_is_asked(store: Store, server: ModelServer, asker: Asker) -> None:
    register(store, server)
    for sent, context in ((request(), CONTEXT._replace(asks={})), (request(name="none"), CONTEXT), (REWARD, CONTEXT)):
        body, spent = told(asker, sent, context)
        assert (body["error"]["kind"], spent) == ("unknown", Spent())
    assert server.bodies == []


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (b"[]", "refused"),
        (b'{"ask":"file","name":"/etc/passwd"}', "refused"),
        (request(url="http://elsewhere"), "refused"),
        (request(sample=-1), "refused"),
        (request(messages=[{"role": "tool", "content": "x"}]), "refused"),
        (request("x" * 262_144), "too_much"),
        (request().replace(b'"sample":0', b'"schema":' + b'{"a":' * 100 + b"1" + b"}" * 100), "too_much"),
        (request().replace(b'"sample":0', b'"schema":' + b'{"a":' * 9000 + b"1" + b"}" * 9000), "too_much"),
    ],
)
def test_what_is_no_request_is_not_answered(asker: Asker, sent: bytes, kind: str) -> None:
    assert error(asker, sent)["kind"] == kind


@pytest.mark.parametrize("required", [[{}], [["a"]], 5, {"a": 1}, [None], "a"])
def test_a_schema_whose_parts_are_none_is_sent_all_the_same(
    store: Store, server: ModelServer, asker: Asker, required: Any
) -> None:
    register(store, server)
    schema = {"type": "object", "properties": {"a": {}}, "required": required, "additionalProperties": False}
    assert "reply" in told(asker, request(schema=schema))[0]
    assert server.bodies[0]["response_format"]["json_schema"]["strict"] is False


def test_what_a_server_says_that_a_reply_cost_can_be_counted_at_any_price(store: Store) -> None:
    """Redis counts up to 2^63 billionths. A larger cost made the ask fail, and with it the whole chunk; a larger count
    was free.
    """
    most = (1 << 24) - 1
    for tokens in (b"%d" % most, b"16777216", b"%d" % 10**30, b"1e300", b"9" * 500):
        body = b'{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":1,"completion_tokens":%b}}' % tokens
        usage = chat_completion.read(body, (KEY,)).usage
        assert usage == (1, most)
        spent = Spent(1, 0, *usage, sum(usage) * 1_000_000 / 1e6)
        context = spending.CountedAsk("default", "model:judge", "g", "")
        for _ in range(150):
            counted = store.spending.count(args=spending.arguments(context, Keeping(0, 1), spent))
    assert spending.standing(counted).batch == (0, 0)
    assert store.spending.told("default").total.usd == ((1 << 63) - 1) / spending.NANO
    assert store.spending.told("default").total.asks == 750


@pytest.mark.parametrize("invalid", [b"null", b'"7"', b"-1", b"[7]", b"0.5", b"true", b"1e999"])
def test_a_count_that_is_none_does_not_hide_the_other_from_a_budget(invalid: bytes) -> None:
    body = b'{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":%b,"completion_tokens":%b}}'
    assert chat_completion.read(body % (invalid, b"7"), (KEY,)).usage == (0, 7)
    assert chat_completion.read(body % (b"7.0", invalid), (KEY,)).usage == (7, 0)


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (
            partial(chat_completion.read, secrets=(KEY,)),
            b'{"choices":[' + b'{"message":{}},' * 270_000 + b'{"message":{}}]}',
        ),
        (partial(error_answers.refusal, 429, {}, secrets=(KEY,)), b'{"error":{"code":[' + b"[]," * 1_390_000 + b"1]}}"),
    ],
)
def test_a_large_answer_of_small_parts_is_read_at_once(read: Callable[..., object], body: bytes) -> None:
    """Answers are parsed on the event loop of all projects."""
    began = process_time()
    with suppress(AskFailed):
        assert isinstance(read(body=body), AskFailed)
    assert process_time() - began < 0.15


def test_once_gets_its_value_back(asker: Asker) -> None:
    body, spent = told(asker, b'{"ask":"once","name":"fn","value":{"a":[1,2.50]}}')
    assert body == {"reply": {"a": [1, 2.5]}}
    assert spent == Spent()


def test_a_stand_in_asks_nobody(store: Store, server: ModelServer, asker: Asker) -> None:
    register(store, server)
    schema = {"type": "object", "properties": {"option": {"enum": ["no", "yes"]}}, "required": ["option"]}
    context = CONTEXT._replace(stand_in=True)
    assert told(asker, request(schema=schema), context)[0]["reply"]["text"] == '{"option":"no"}'
    assert told(asker, request(), context)[0]["reply"]["text"] == "stand-in"
    assert told(asker, REWARD, context)[0]["reply"] == {"reward": 0.0, "metadata": {}}
    assert server.bodies == []


@pytest.mark.parametrize(
    ("behaviour", "kind", "told_reply"),
    [
        ("status:401", "refused", "as the script says"),
        ("cut-off", "cut_off", "answer"),
        ("refusal", "refused", "I cannot help"),
        ("echo-key", "refused", "[API key]"),
        ("say-key", "invalid_reply", ""),
    ],
)
def test_what_ends_an_ask_at_once(
    store: Store, server: ModelServer, asker: Asker, behaviour: str, kind: str, told_reply: str
) -> None:
    register(store, server, f"behave:{behaviour}")
    found = error(asker, request())
    assert (found["kind"], found["retryable"]) == (kind, False)
    assert told_reply in found["reply"]
    assert len(server.bodies) == 1
    assert error(asker, request())["kind"] == kind
    assert len(server.bodies) == 2  # an error is not kept


@pytest.mark.parametrize("behaviour", ["status:503", "half", "drip"])
def test_what_may_pass_is_asked_again_for_a_while(store: Store, server: ModelServer, behaviour: str) -> None:
    register(store, server, f"behave:{behaviour}", timeout_s=1)
    with asking(store, ask_s=3) as asker:
        began = monotonic()
        found = error(asker, request())
    assert (found["kind"], found["retryable"]) == ("unreachable", True)
    assert len(server.bodies) > 1
    assert monotonic() - began < 5


def test_replies_that_a_server_broke_off_are_asked_again_and_paid_for(store: Store) -> None:
    with ModelServer(Script(behave="broken-off", times=2)) as server, asking(store) as asker:
        register(store, server, input_price=1000.0, output_price=2000.0)
        body, spent = told(asker, request())
    assert body["reply"]["finish_reason"] == "stop"
    assert spent == Spent(1, 0, 30, 15, 0.06)
    with ModelServer(Script(behave="broken-off")) as server, asking(store, ask_s=1) as asker:
        store.models.update("default", "judge", {"base_url": server.base_url, "api_key": KEY})
        body, spent = told(asker, request("another"))
        tries = len(server.bodies)
    assert (body["error"]["kind"], body["error"]["retryable"]) == ("unreachable", True)
    assert (spent.asks, spent.input_tokens, spent.output_tokens) == (1, 10 * tries, 5 * tries)
    assert spent.usd == pytest.approx(0.02 * tries)
    total = store.spending.told("default").total
    assert total.input_tokens == 30 + 10 * tries
    assert total.usd == pytest.approx(0.06 + 0.02 * tries)


def test_no_more_tries_are_paid_for_than_a_budget_allows(store: Store) -> None:
    context = CONTEXT._replace(batch=running(store, "b"), budget=Budget(tokens=40))
    with ModelServer(Script(behave="broken-off")) as server, asking(store) as asker:
        register(store, server)
        body, spent = told(asker, request(), context)
    assert body["error"]["kind"] == "over_budget"
    assert body["error"]["message"].startswith("the batch's budget of 40 tokens is used up: send the rest with")
    assert len(server.bodies) == 3
    assert spent == Spent(1, 0, 30, 15, 0.0)
    total = store.spending.told("default").total
    assert (total.asks, total.input_tokens) == (1, 30)


def test_what_was_paid_for_before_a_model_was_changed_is_counted(store: Store, server: ModelServer) -> None:
    with ModelServer(Script(behave="broken-off")) as first, asking(store) as asker:
        register(store, first)
        waiting = asker.ask(request(), CONTEXT, lambda: True)
        eventually(lambda: len(first.bodies) >= 2)
        store.models.update("default", "judge", {"base_url": server.base_url, "api_key": KEY})
        assert not waiting.result(20).is_error
        asked = len(first.bodies) + len(server.bodies)
    assert store.spending.told("default").total.input_tokens == 10 * asked


def test_each_try_has_the_whole_time_of_its_server(store: Store) -> None:
    """A model with `timeout_s` 300 was asked for 120 s at most, and the error advised to raise `timeout_s`."""
    with ModelServer(Script(latency_s=2.5)) as server, asking(store, ask_s=1) as asker:
        register(store, server, timeout_s=20)
        store.endpoints.create("default", "reward", server.base_url, "", 20)
        waiting = [asker.ask(each, CONTEXT, lambda: True) for each in (request(), REWARD)]
        assert not any(each.result(20).is_error for each in waiting)
        assert len(server.bodies) == 2
        store.models.update("default", "judge", {"timeout_s": 2})
        assert "within 2 s" in error(asker, request("again"), later())["message"]
        assert len(server.bodies) == 3  # there is no time for another try


@pytest.mark.parametrize("change", ["update", "make anew", "delete"])
def test_an_ask_that_waits_for_a_server_sees_that_its_model_was_changed(
    store: Store, server: ModelServer, change: str
) -> None:
    away = f"http://127.0.0.1:{free_port()}/v1"
    store.models.create("default", "judge", away, "m", KEY, ModelDefaults(), 5)
    with asking(store) as asker:
        waiting = [asker.ask(request(text), CONTEXT, lambda: True) for text in ("a", "b", "a")]
        sleep(1)
        if change == "update":
            store.models.update("default", "judge", {"base_url": server.base_url, "api_key": KEY})
        else:
            store.models.delete("default", "judge")
        if change == "make anew":
            register(store, server)
        answers = [json.loads(each.result(20).body) for each in waiting]
        if change == "delete":
            assert {answer["error"]["kind"] for answer in answers} == {"unknown"}
        else:
            assert all("reply" in answer for answer in answers)
            assert len(server.bodies) == 2
            assert told(asker, request("b"))[1].kept == 1  # under the settings that it was sent with


@pytest.mark.parametrize("change", ["url", "key", "delete"])
def test_asks_that_wait_for_a_place_are_not_sent_to_a_server_that_was_replaced(
    store: Store, server: ModelServer, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A model that was deleted in the middle of a batch was sent a thousand more requests."""
    monkeypatch.setattr(client_cache, "_FRESH_S", 0.1)
    with ModelServer(Script(latency_s=0.4)) as old, asking(store) as asker:
        register(store, old, max_concurrency=1)
        store.endpoints.create("default", "reward", old.base_url, KEY, 5, max_concurrency=1)
        asks = [request("a"), request("b"), REWARD, REWARD]
        waiting = [asker.ask(each, CONTEXT, lambda: True) for each in asks]
        eventually(lambda: len(old.bodies) == 2)
        if change == "delete":
            store.models.delete("default", "judge")
            store.endpoints.delete("default", "reward")
        elif change == "key":
            store.models.update("default", "judge", {"api_key": f"{KEY}-2"})
            store.endpoints.update("default", "reward", {"api_key": f"{KEY}-2"})
        else:
            store.models.update("default", "judge", {"base_url": server.base_url, "api_key": KEY})
            store.endpoints.update("default", "reward", {"url": server.base_url, "api_key": KEY})
        answers = [json.loads(each.result(20).body) for each in waiting]
        with_old_key = [each for each in old.headers if each["Authorization"] == f"Bearer {KEY}"]
        assert len(with_old_key) == 2
        assert len(server.bodies) == (2 if change == "url" else 0)
        failed = [answer["error"]["kind"] for answer in answers if "error" in answer]
        assert failed == (["unknown"] * 2 if change == "delete" else [])


def test_a_retry_after_a_pause_is_sent_with_the_current_key(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_cache, "_FRESH_S", 0.1)
    script = Script(behave="status", status=429, retry_after="2", times=1)
    with ModelServer(script) as server, asking(store) as asker:
        register(store, server)
        waiting = asker.ask(request(), CONTEXT, lambda: True)
        sleep(1.2)  # after the pause of the ask itself
        store.models.update("default", "judge", {"api_key": f"{KEY}-2"})
        assert not waiting.result(20).is_error
        assert [each["Authorization"] for each in server.headers] == [f"Bearer {KEY}", f"Bearer {KEY}-2"]


def test_a_proof_does_not_wait_long_for_a_server_that_takes_no_connection(store: Store) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    store.models.create("default", "judge", url, "m", KEY, ModelDefaults(), 5, max_concurrency=1)
    proof = CONTEXT._replace(timeouts=ValidationTimeouts(reply_s=20, tries_s=2))
    with asking(store) as asker:
        began = monotonic()
        futures = [asker.ask(request(str(number)), proof, lambda: True) for number in range(20)]
        errors = [json.loads(future.result(20).body)["error"] for future in futures]
        assert monotonic() - began < 4  # not that long again for each ask that waits for the place
        assert {each["kind"] for each in errors} == {"unreachable"}
        assert all("could not be reached" in each["message"] for each in errors)
        assert all('ask="stand-in"' in each["message"] for each in errors)
        waiting = asker.ask(request(), CONTEXT, lambda: True)  # not of a proof, so it waits for the server
        sleep(0.5)
        with ModelServer(port=port):
            assert not waiting.result(20).is_error
            assert "reply" in told(asker, request(), proof._replace(timeouts=ValidationTimeouts()))[0]


def test_a_proof_does_not_wait_long_for_a_reply(store: Store, server: ModelServer) -> None:
    register(store, server, "behave:hang", timeout_s=60, max_concurrency=2)
    store.endpoints.create("default", "reward", server.base_url, "", 60, max_concurrency=2)
    server.script = Script(behave="hang")
    proof = CONTEXT._replace(timeouts=ValidationTimeouts(reply_s=1.5, tries_s=1))
    with asking(store) as asker:
        began = monotonic()
        futures = [asker.ask(request(str(number)), proof, lambda: True) for number in range(10)]
        futures += [asker.ask(REWARD, proof, lambda: True)]
        messages = [json.loads(future.result(20).body)["error"]["message"] for future in futures]
        assert 1.5 <= monotonic() - began < 3
    assert len(server.bodies) == 3
    assert all("within the 1.5 s that a proof waits" in message for message in messages)
    assert all('ask="stand-in"' in message for message in messages)


def test_asks_fail_at_once_where_a_server_has_been_away_for_long(store: Store) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    store.models.create("default", "judge", url, "m", KEY, ModelDefaults(), 5, max_concurrency=2)
    with asking(store, ask_s=1.5) as asker:
        assert error(asker, request())["kind"] == "unreachable"
        sleep(1)
        began = monotonic()
        futures = [asker.ask(request(str(number)), CONTEXT, lambda: True) for number in range(50)]
        kinds = {json.loads(future.result(20).body)["error"]["kind"] for future in futures}
        assert kinds == {"unreachable"}
        assert monotonic() - began < 1.5
        with ModelServer(port=port):
            assert not asker.ask(request("later"), CONTEXT, lambda: True).result(20).is_error


def test_asks_are_counted_by_what_they_came_to(store: Store, server: ModelServer, asker: Asker) -> None:
    register(store, server)
    for _ in range(3):
        told(asker, request())
    told(asker, request().replace(b'"judge"', b'"none"'))

    def counted(name: str, **labels: str) -> float | None:
        return asker.counts.registry.get_sample_value(f"gradebox_{name}_total", {"project": "default", **labels})

    assert counted("asks", asked="model:judge", result="replied") == 1
    assert counted("asks", asked="model:judge", result="kept") == 2
    assert counted("asks", asked="model:none", result="unknown") == 1
    assert 0 < (counted("ask_server_seconds", asked="model:judge") or 0) < 10


def test_models_beyond_a_number_are_counted_together() -> None:
    counts = AskCounts()
    for number in range(300):
        counts.add("default", f"model:m{number}", Answer(b'{"reply":1}', Spent(asks=1)))
    rest = {"project": "(rest)", "asked": "(rest)", "result": "replied"}
    assert counts.registry.get_sample_value("gradebox_asks_total", rest) == 100


@pytest.mark.parametrize("retry_after", ["", "1"])
def test_a_server_that_wants_fewer_requests_gets_fewer(store: Store, retry_after: str) -> None:
    script = Script(behave="status", status=429, times=1, retry_after=retry_after)
    with ModelServer(script) as server, asking(store) as one, asking(store) as other:
        register(store, server)
        began = monotonic()
        first = one.ask(request("1"), CONTEXT, lambda: True)
        sleep(0.3)  # the other process starts during the pause
        later = other.ask(request("2"), CONTEXT, lambda: True)
        assert not first.result(20).is_error
        assert not later.result(20).is_error
        assert monotonic() - began > (1 if retry_after else 0.4)
        assert len(server.bodies) == 3


def test_a_pause_that_is_longer_than_an_ask_ends_it(store: Store) -> None:
    with ModelServer(Script(behave="status", status=429, retry_after="600")) as server, asking(store) as asker:
        register(store, server)
        for text in ("1", "2"):
            found = error(asker, request(text))
            assert (found["kind"], found["retryable"]) == ("rate_limited", True)
        assert len(server.bodies) == 1


@pytest.mark.parametrize("change", ["url", "key", "make anew"])
def test_a_pause_ends_with_the_server_or_account_that_asked_for_it(store: Store, change: str) -> None:
    """It lasts up to an hour; a model was stopped for it even after its server was replaced."""
    script = Script(behave="status", status=429, retry_after="3600", times=1)
    with ModelServer(script) as server, ModelServer() as other, asking(store) as asker:
        register(store, server)
        assert error(asker, request())["kind"] == "rate_limited"
        store.models.update("default", "judge", {"max_concurrency": 2, "timeout_s": 6})
        assert error(asker, request(), later())["kind"] == "rate_limited"
        assert len(server.bodies) == 1
        if change == "url":
            store.models.update("default", "judge", {"base_url": other.base_url, "api_key": KEY})
        elif change == "key":
            store.models.update("default", "judge", {"api_key": f"{KEY}-2"})
        else:
            store.models.delete("default", "judge")
            register(store, server)
        assert "reply" in told(asker, request(), later())[0]
        assert asker.room(CONTEXT) > 0


def test_a_pause_of_an_endpoint_ends_with_its_server(store: Store) -> None:
    script = Script(behave="status", status=429, retry_after="3600", times=1)
    with ModelServer(script) as server, ModelServer() as other, asking(store) as asker:
        store.endpoints.create("default", "reward", server.base_url, "", 5)
        assert error(asker, REWARD)["kind"] == "rate_limited"
        store.endpoints.update("default", "reward", {"url": other.base_url})
        assert told(asker, REWARD, later())[0]["reply"]["reward"] == 0.5


def test_a_call_that_begins_after_an_update_asks_the_new_server(store: Store, asker: Asker) -> None:
    """For two seconds the old one answered: a retry right after the update failed with the old server's error."""
    with ModelServer(Script(reply="old")) as old, ModelServer(Script(reply="new")) as new:
        register(store, old)
        assert told(asker, request())[0]["reply"]["text"] == "old"
        for server, reply in ((new, "new"), (old, "old"), (new, "new")):
            store.models.update("default", "judge", {"base_url": server.base_url, "api_key": KEY})
            assert told(asker, request(), later())[0]["reply"]["text"] == reply
            assert told(asker, request())[0]["reply"]["text"] == reply  # calls that run already use it too


def test_the_settings_are_read_once_in_a_call(
    store: Store, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, access = [], store.models.access

    def counted(project: str, key: str) -> Access[RegisteredModel]:
        read.append(key)
        return access(project, key)

    monkeypatch.setattr(store.models, "access", counted)
    register(store, server)
    with asking(store) as asker:
        for calls in (1, 2):
            context = later()
            for future in [asker.ask(request(str(number)), context, lambda: True) for number in range(50)]:
                assert not future.result(20).is_error
            assert len(read) == calls


def test_an_ask_does_not_wait_for_an_equal_one_with_an_older_key(store: Store) -> None:
    with ModelServer(Script(latency_s=1)) as server, asking(store) as asker:
        register(store, server)
        first = asker.ask(request(), CONTEXT, lambda: True)
        sleep(0.5)
        store.models.update("default", "judge", {"api_key": f"{KEY}-2"})
        assert not asker.ask(request(), later(), lambda: True).result(20).is_error
        assert not first.result(20).is_error
        assert len(server.bodies) == 2


def test_what_is_not_wanted_any_more_is_given_up(store: Store) -> None:
    with ModelServer(Script(latency_s=20)) as server, asking(store) as asker:
        register(store, server)
        wanted = threading.Event()
        wanted.set()
        futures = [asker.ask(request(str(number)), CONTEXT, wanted.is_set) for number in range(20)]
        other = asker.ask(request("other"), CONTEXT, lambda: True)
        sleep(0.5)
        wanted.clear()
        began = monotonic()
        for future in futures:
            with pytest.raises(CancelledError):
                future.result(5)
        assert monotonic() - began < 1
        assert not other.done()
    assert other.cancelled()  # the asker was closed


def test_a_reply_is_paid_for_once(store: Store, server: ModelServer, asker: Asker) -> None:
    register(store, server)
    first = told(asker, request())
    assert told(asker, request()) == (first[0], Spent(asks=1, kept=1))
    with asking(store) as another_process:
        assert told(another_process, request(), CONTEXT._replace(grader="g", label="g@7", batch="b"))[1].kept == 1
        assert len(server.bodies) == 1
        assert told(another_process, request(sample=1))[1].kept == 0
        assert told(another_process, request(), CONTEXT._replace(keep=False))[1].kept == 0
        assert len(server.bodies) == 3
        store.models.update("default", "judge", {"model": "another"})
        assert told(another_process, request(), later())[1].kept == 0
        store.models.update("default", "judge", {"keep_replies": False})
        assert told(another_process, request(), later())[1].kept == 0
        assert len(server.bodies) == 5


def test_a_reply_that_does_not_fit_is_not_kept(store: Store) -> None:
    """A server that answered nonsense for a minute did so for 30 days: its replies were kept, and retries got them."""
    script = Script(reply="The model is loading, please wait.", schemas=False)
    choice = request(schema=choice_schema(["yes", "no"], True))
    with ModelServer(script) as server, asking(store) as asker:
        register(store, server)
        note(store, False)
        assert [told(asker, choice)[1].kept for _ in range(2)] == [0, 0]
        server.script = Script(reply='```json\n{"reasoning": "r", "option": "yes"}\n```')
        assert [told(asker, choice)[1].kept for _ in range(2)] == [0, 1]
        assert len(server.bodies) == 3


def test_a_project_whose_server_hangs_leaves_others_their_connections(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model may allow ten thousand at once. The process has fewer descriptors, and its sandboxes need some too."""
    monkeypatch.setattr(server_connections, "_PART", resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 8)
    with ModelServer(Script(behave="hang")) as slow, ModelServer() as server, asking(store) as asker:
        register(store, slow, max_concurrency=10_000)
        store.projects.create("other")
        store.models.create("other", "judge", server.base_url, "m", KEY, ModelDefaults(), 5)
        hanging = [asker.ask(request(str(n)), CONTEXT, lambda: True) for n in range(60)]
        eventually(lambda: len(slow.bodies) >= 8, 10)
        assert "reply" in told(asker, request(), CONTEXT._replace(project="other"))[0]
        assert 8 <= len(slow.bodies) <= 10  # 8 if the limit is divisible by 8
        assert not any(each.done() for each in hanging)


def test_another_project_pays_for_itself(store: Store, server: ModelServer, asker: Asker) -> None:
    store.projects.create("other")
    register(store, server)
    store.models.create("other", "judge", server.base_url, "m", KEY, ModelDefaults(temperature=0), 5)
    told(asker, request())
    assert told(asker, request(), CONTEXT._replace(project="other"))[1].kept == 0


def test_scripts_that_redis_lost_are_loaded_again(store: Store, server: ModelServer, asker: Asker) -> None:
    register(store, server)
    told(asker, request("1"))
    store.redis.script_flush()
    assert "reply" in told(asker, request("2"))[0]


def test_equal_asks_at_once_are_sent_once(store: Store) -> None:
    with ModelServer(Script(latency_s=0.5)) as server, asking(store) as asker:
        register(store, server)
        futures = [asker.ask(request(), CONTEXT, lambda: True) for _ in range(10)]
        answers = [future.result(20) for future in futures]
        assert len({answer.body for answer in answers}) == 1
        assert sum(answer.spent.kept for answer in answers) == 9
        assert len(server.bodies) == 1
        total = store.spending.told("default").total
        assert total == Spending(asks=10, kept=9, input_tokens=10, output_tokens=5, usd=0)
        alone = CONTEXT._replace(keep=False)
        for future in [asker.ask(request(), alone, lambda: True) for _ in range(3)]:
            assert future.result(20).spent.kept == 0
        assert len(server.bodies) == 4


def test_equal_asks_that_fail_together_are_counted_as_the_one_that_was_sent(store: Store) -> None:
    with ModelServer(Script(latency_s=0.3, behave="status", status=400)) as server, asking(store) as asker:
        register(store, server)
        futures = [asker.ask(request(), CONTEXT, lambda: True) for _ in range(5)]
        spent = sum_of([future.result(20).spent for future in futures])
        assert spent.asks == store.spending.told("default").total.asks == len(server.bodies) == 1


def test_one_that_is_given_up_does_not_end_its_equals(store: Store) -> None:
    with ModelServer(Script(latency_s=1)) as server, asking(store) as asker:
        register(store, server)
        first = asker.ask(request(), CONTEXT, lambda: True)
        second = asker.ask(request(), CONTEXT, lambda: True)
        sleep(0.3)
        first.cancel()
        assert not second.result(20).is_error
        assert len(server.bodies) == 1


def test_no_more_are_sent_at_once_than_the_model_may_have(store: Store) -> None:
    with ModelServer(Script(latency_s=0.1)) as server, asking(store) as one, asking(store) as other:
        register(store, server, max_concurrency=4)
        done: list[str] = []
        futures = []
        for number in range(40):
            for name, asker in (("one", one), ("other", other)):
                future = asker.ask(request(f"{number} {name}"), CONTEXT, lambda: True)
                future.add_done_callback(lambda _, name=name: done.append(name))  # type: ignore[misc]
                futures.append(future)
        assert not any(future.result(60).is_error for future in futures)
        assert server.most_at_once == 4
        assert 8 < done[:60].count("one") < 52  # neither asker waits until the other is done


def test_a_completion_that_has_asked_gets_the_next_place(store: Store) -> None:
    with ModelServer(Script(latency_s=0.3)) as server, asking(store) as asker:
        register(store, server, max_concurrency=1)
        futures = [asker.ask(request(f"first {number}"), CONTEXT, lambda: True) for number in range(5)]
        eventually(lambda: server.bodies)
        futures.append(asker.ask(request("second"), CONTEXT._replace(has_asked=True), lambda: True))
        assert not any(future.result(60).is_error for future in futures)
        assert "second" in [body["messages"][0]["content"] for body in server.bodies[1:3]]


def test_it_says_how_many_more_asks_would_be_sent_soon(store: Store) -> None:
    with ModelServer(Script(latency_s=0.2)) as server, asking(store) as asker:
        register(store, server, max_concurrency=4)
        before = asker.room(CONTEXT)
        futures = [asker.ask(request(str(number)), CONTEXT, lambda: True) for number in range(80)]
        assert asker.room(CONTEXT) == 0
        assert asker.room(CONTEXT._replace(asks={"model:another": ""})) == before
        assert not any(future.result(60).is_error for future in futures)
        assert asker.room(CONTEXT) == before


def test_requests_a_minute_are_shared(store: Store) -> None:
    with ModelServer() as server, asking(store) as one, asking(store) as other:
        register(store, server, max_concurrency=64, requests_per_minute=120)
        began = monotonic()
        futures = [
            asker.ask(request(f"{n} {asker is one}"), CONTEXT, lambda: True) for n in range(8) for asker in (one, other)
        ]
        assert not any(future.result(60).is_error for future in futures)
        assert monotonic() - began > 2.4  # ten at once, then two a second


def test_tokens_a_minute_are_counted(store: Store) -> None:
    with ModelServer() as server, asking(store) as asker:
        register(store, server, tokens_per_minute=600)  # a request takes 15; 50 at once, then 10 a second
        for number in range(4):
            told(asker, request(str(number)))
        began = monotonic()
        for number in range(4, 8):
            told(asker, request(str(number)))
        assert monotonic() - began > 2


@pytest.mark.parametrize("found", [None, True, False])
def test_a_schema_goes_to_a_server_unless_it_was_found_to_take_none(
    store: Store, server: ModelServer, asker: Asker, found: bool | None
) -> None:
    register(store, server)
    if found is not None:
        note(store, found)
    schema = {"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"], "additionalProperties": False}
    reply = told(asker, request("1", schema=schema))[0]["reply"]
    if found is False:
        assert reply["text"] == '{"answer": "yes"}'
        assert "response_format" not in server.bodies[-1]
        return
    assert reply["text"] == '{"a": "x"}'
    sent = server.bodies[-1]["response_format"]
    assert sent["type"] == "json_schema"
    assert (sent["json_schema"]["schema"], sent["json_schema"]["strict"]) == (schema, True)


def test_a_server_gets_the_members_of_a_schema_in_their_order(store: Store, server: ModelServer, asker: Asker) -> None:
    """Servers with constrained decoding write the members in this order: the reasoning comes before the decision."""
    register(store, server)
    ask = {"ask": "model", "name": "judge", "messages": [{"role": "user", "content": "?"}]}
    assert told(asker, encoded({**ask, "schema": choice_schema(["yes", "no"], True)}))[1].asks == 1
    sent = server.bodies[-1]["response_format"]["json_schema"]["schema"]
    assert list(sent["properties"]) == ["reasoning", "option"]


def note(store: Store, structured_output: bool) -> None:
    """Stores the result of a trial of the model."""
    revision = store.models.access("default", "judge").server.revision
    trial = ModelTrial(passed=True, structured_output=structured_output, logprobs=False, duration_ms=1)
    store.models.note_trial("default", "judge", revision, trial)


def test_a_schema_that_a_server_refuses_is_left_out(store: Store) -> None:
    with ModelServer(Script(schemas=False)) as server, asking(store) as asker:
        register(store, server)
        assert told(asker, request(schema={"type": "object"}))[0]["reply"]["text"] == '{"answer": "yes"}'
        assert len(server.bodies) == 2
        assert told(asker, request("2", schema={"type": "object"}))[0]["reply"]["text"] == '{"answer": "yes"}'
        assert len(server.bodies) == 3


def test_a_request_without_the_refused_schema_counts_towards_requests_a_minute(store: Store) -> None:
    with ModelServer(Script(schemas=False)) as server, asking(store) as asker:
        register(store, server, max_concurrency=64, requests_per_minute=600)
        note(store, True)  # so each ask sends its schema first
        began = monotonic()
        asks = [request(str(number), schema={"type": "object"}) for number in range(30)]
        futures = [asker.ask(sent, CONTEXT, lambda: True) for sent in asks]
        assert not any(future.result(60).is_error for future in futures)
        told(asker, request("last"))
        assert len(server.bodies) == 61
        assert monotonic() - began > 0.9  # fifty at once, then ten a second


def test_what_asks_cost_is_counted(store: Store, server: ModelServer, asker: Asker) -> None:
    register(store, server, input_price=1000.0, output_price=2000.0)
    context = CONTEXT._replace(batch=running(store, "b1"))
    assert told(asker, request("1"), context)[1] == Spent(1, 0, 10, 5, 0.02)
    told(asker, request("2"), context)
    told(asker, request("2"), context)
    expected = Spending(asks=3, kept=1, input_tokens=20, output_tokens=10, usd=0.04)
    assert spent_by_batch(store, "b1") == {
        "asks": 3, "kept": 1, "input_tokens": 20, "output_tokens": 10, "cost:USD": 40_000_000
    }  # fmt: skip
    spent = store.spending.told("default")
    assert (spent.total, spent.by) == (expected, dict.fromkeys(("model:judge", "grader:polite"), expected))
    assert store.spending.told("default", f"{datetime.now(UTC):%Y-%m}").total == expected


def test_a_budget_ends_asking(store: Store) -> None:
    with ModelServer(Script(latency_s=0.05)) as server, asking(store) as asker:
        register(store, server, input_price=1000.0, output_price=2000.0, max_concurrency=4)
        context = CONTEXT._replace(batch=running(store, "b1"), budget=Budget(usd=0.2))  # ten asks
        futures = [asker.ask(request(str(number)), context, lambda: True) for number in range(60)]
        failed = [json.loads(future.result(20).body)["error"] for future in futures if future.result(20).is_error]
        assert {(one["kind"], one["retryable"]) for one in failed} == {("over_budget", False)}
        assert "the batch's budget of 0.2 USD is used up" in failed[0]["message"]
        assert 10 <= len(server.bodies) <= 14
        assert "reply" in told(asker, request("0"), context)[0]  # a kept reply costs nothing
        other = context._replace(batch=running(store, "b2"), budget=Budget(tokens=1000))
        assert "reply" in told(asker, request("another batch"), other)[0]


def test_a_worker_sees_at_once_that_another_has_spent_the_budget(store: Store) -> None:
    """It sent an ask for each of its places, because it had read the spending less than two seconds before."""
    with ModelServer() as server, asking(store) as one, asking(store) as other:
        register(store, server)
        context = CONTEXT._replace(batch=running(store, "b"), budget=Budget(tokens=150), keep=False)
        assert "reply" in told(one, request("first"), context)[0]
        for number in range(9):
            told(other, request(str(number)), context)
        futures = [one.ask(request(f"late {number}"), context, lambda: True) for number in range(8)]
        assert all(future.result(20).is_error for future in futures)
        assert len(server.bodies) == 10


def test_no_more_is_asked_for_a_batch_that_was_cancelled(store: Store) -> None:
    """Its chunks see the end themselves only after a quarter of a second."""
    context = CONTEXT._replace(batch=running(store, "b1"))
    with ModelServer(Script(latency_s=0.05)) as server, asking(store) as asker:
        register(store, server, max_concurrency=4)
        futures = [asker.ask(request(str(number)), context, lambda: True) for number in range(60)]
        eventually(lambda: len(server.bodies) >= 12)
        store.redis.hset(redis_keys.batch("b1"), "state", "cancelled")
        asked = len(server.bodies)
        sleep(1)
        assert len(server.bodies) - asked <= 8  # those under way, and at most one after each until it is counted
        running(store, "b1")  # as by a retry
        assert not any(future.result(20).is_error for future in futures)


def test_a_budget_of_a_batch_pays_for_no_model_that_it_does_not_limit(
    store: Store, server: ModelServer, asker: Asker
) -> None:
    register(store, server, input_price=0, output_price=0)
    context = CONTEXT._replace(batch=running(store, "b"), budget=Budget(usd=1.0))
    assert "reply" in told(asker, request("1"), context)[0]
    store.models.delete("default", "judge")
    register(store, server)
    context = context._replace(since=monotonic())
    found = error(asker, request("2"), context)
    assert (found["kind"], found["retryable"]) == ("over_budget", False)
    assert found["message"].startswith("the batch's budget in USD does not limit model:judge, which no longer has")
    assert "reply" in told(asker, request("1"), context)[0]  # it was kept, and costs nothing
    assert "reply" in told(asker, request("2"), context._replace(budget=Budget(tokens=1000)))[0]
    assert len(server.bodies) == 2


def test_a_budget_of_a_project_ends_asking_until_it_is_raised(store: Store, server: ModelServer, asker: Asker) -> None:
    register(store, server)
    store.spending.set_budget("default", Budget(tokens=20, period="day"))
    assert "reply" in told(asker, request("1"))[0]
    assert "reply" in told(asker, request("2"))[0]
    assert error(asker, request("3"))["message"].startswith("the project's budget of 20 tokens a day is used up: raise")
    store.spending.set_budget("default", Budget(tokens=2000, period="day"))
    assert "reply" in told(asker, request("3"))[0]


def test_a_grader_is_asked_on_threads_of_its_own(store: Store) -> None:
    thread = b'{"messages":[],"metadata":{"n":1}}'
    seen: list[tuple[str, bytes, str]] = []

    def score(label: str, threads: Sequence[bytes], context: AskContext, wanted: Callable[[], bool]) -> list[Answer]:
        (data,) = threads
        seen.append((label, data, context.label))
        if len(seen) > 3 * 20:
            return [Answer(b'{"reply":{"score":1.0}}', Spent(asks=1))]
        return [asker.ask(asked, context, wanted).result(20)]

    asked = b'{"ask":"grader","name":"other","thread":%b}' % thread
    with asking(store) as asker:
        asker.score_other = score
        body, _ = told(asker, asked)
        assert body["error"]["kind"] == "too_much"  # it asks itself recursively
        assert seen == [("other@3", thread, "polite@1")] * 4
        asker.score_other = lambda _, threads, *__: [Answer(b'{"reply":{"score":1.0}}', Spent(asks=1))] * len(threads)
        futures = [asker.ask(asked, CONTEXT, lambda: True) for _ in range(50)]
        assert {future.result(20).body for future in futures} == {b'{"reply":{"score":1.0}}'}


def test_asks_of_one_grader_that_are_made_together_go_through_its_sandbox_together(store: Store) -> None:
    seen: list[tuple[str, list[bytes]]] = []

    def score(label: str, threads: Sequence[bytes], context: AskContext, wanted: Callable[[], bool]) -> list[Answer]:
        seen.append((label, list(threads)))
        return [Answer(b'{"reply":%b}' % thread, Spent(asks=1)) for thread in threads]

    def wanted() -> bool:
        return True

    context = CONTEXT._replace(asks={"grader:a": "a@1", "grader:b": "b@2"})
    bodies = [b'{"n":%d}' % number for number in range(100)] + [b'{"n":\n100}']
    asks = [b'{"ask":"grader","name":"%b","thread":%b}' % (name, body) for body in bodies for name in (b"a", b"b")]
    with asking(store) as asker:
        asker.score_other = score
        with asker.together():
            futures = [asker.ask(each, context, wanted) for each in asks]
            assert not seen
        found = [future.result(20).body for future in futures]
    assert found == [b'{"reply":%b}' % body for body in bodies for _ in "ab"]
    # A thread with a line break is sent separately.
    counts = sorted((label, len(threads)) for label, threads in seen)
    assert counts == [("a@1", 1), ("a@1", 36), ("a@1", 64), ("b@2", 1), ("b@2", 36), ("b@2", 64)]


def test_an_endpoint_is_asked(store: Store, server: ModelServer, asker: Asker) -> None:
    store.endpoints.create("default", "reward", server.base_url, KEY, 5)
    turns = [{"role": "user", "content": "?"}]
    thread = {"messages": turns, "metadata": {"n": 1, "a": 2}}
    sent = encoded({"ask": "endpoint", "name": "reward", "thread": thread})
    reply = {"reward": 0.5, "metadata": {"reason": "as the script says"}}
    assert told(asker, sent) == ({"reply": reply}, Spent(asks=1))
    assert server.bodies == [{"turns": turns, "metadata": {"n": 1, "a": 2}, "id": None}]
    assert list(server.bodies[0]["metadata"]) == ["n", "a"]


def test_a_reward_that_repeats_a_header_is_withheld(store: Store, asker: Asker) -> None:
    with ModelServer(Script(api_key=KEY, behave="say-key")) as server:
        store.endpoints.create("default", "reward", server.base_url, "", 5, {"X-API-Key": KEY})
        found = error(asker, REWARD)
    assert found["kind"] == "invalid_reply"
    assert "the value of a header" in found["message"]


def test_what_asks_nobody_loads_nothing(store: Store) -> None:
    assert printed("import models.asks.asker; print({'aiohttp', 'uvloop'} & set(sys.modules))") == "set()\n"
    with asking(store) as asker:
        told(asker, b'{"ask":"once","name":"fn","value":1}')
        assert "asker" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_asker_that_fails_begins_anew(store: Store) -> None:
    def fail() -> bool:
        raise ZeroDivisionError

    with ModelServer(Script(latency_s=2)) as server, asking(store) as asker:
        register(store, server)
        with pytest.raises(CancelledError):
            asker.ask(request("1"), CONTEXT, fail).result(10)
        assert "reply" in told(asker, request("2"))[0]


def test_an_asker_that_is_closed_cancels(store: Store) -> None:
    asker = Asker(store, HERE)
    asker.close()
    assert asker.ask(request(), CONTEXT, lambda: True).cancelled()


def store_at(url: str, folder: Path, server: ModelServer) -> Store:
    """A store of its own, with the model."""
    redis = connect(url)
    check_format(redis)
    store = Store(redis, Spool(f"file://{folder}/spool"), secret_key=folder / "key")
    store.projects.ensure("default")
    register(store, server)
    return store


def test_a_store_that_is_away_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """Also when a model is looked up again; failed asks would become outcomes."""
    with ModelServer() as server:
        with redis_server(tmp_path) as url:
            asker = Asker(store_at(url, tmp_path, server), HERE)
            told(asker, request("1"))
        sleep(2.1)
        asked = [asker.ask(request(f"again {n}"), CONTEXT, lambda: True) for n in range(8)]
        sleep(1)
        assert not any(each.done() for each in asked)
        with redis_server(tmp_path):
            assert not any(each.result(20).is_error for each in asked)
            asker.close()


def asks_counted(url: str) -> dict[str, int]:
    found = SpendingStore(connect(url), Audit(connect(url))).told("default").total
    return {"asks": found.asks, "kept": found.kept, "input_tokens": found.input_tokens}


def test_a_worker_waits_for_the_store_however_long_it_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replies are paid for while the store is away; the asks after them are made once it is back."""
    monkeypatch.setattr(store_calls, "AWAY_S", 0.3)
    with ModelServer(Script(latency_s=1)) as server:
        with redis_server(tmp_path) as url:
            asker = Asker(store_at(url, tmp_path, server), HERE, waits_for_store=True)
            asked = [asker.ask(request(f"{n}"), CONTEXT, lambda: True) for n in range(8)]
            eventually(lambda: len(server.bodies) == 8)
        sleep(2.5)
        asked += [asker.ask(request(f"{n}"), CONTEXT, lambda: True) for n in range(4, 12)]
        sleep(1.5)
        assert not any(each.done() for each in asked)
        with redis_server(tmp_path) as url:
            assert not any(each.result(20).is_error for each in asked)
            asker.close()
            assert asks_counted(url) == {"asks": 16, "kept": 4, "input_tokens": 120}
        assert len(server.bodies) == 12


def test_connections_stay_open_for_asks_that_wait_for_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_asks, "_LOOKS_TO_IDLE", 1)
    monkeypatch.setattr(Clients.close_idle, "__defaults__", (0.1,))
    with ModelServer() as server:
        with redis_server(tmp_path) as url:
            asker = Asker(store_at(url, tmp_path, server), HERE, waits_for_store=True)
            told(asker, request("1"))
        asked = asker.ask(request("2"), CONTEXT, lambda: True)
        sleep(1.5)
        with redis_server(tmp_path):
            assert not asked.result(20).is_error
            asker.close()


def test_a_worker_waits_for_a_store_that_is_full(
    store: Store, redis: Redis, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_calls, "AWAY_S", 0.3)
    register(store, server)
    asker = Asker(store, HERE, waits_for_store=True)
    redis.config_set("maxmemory", 1)
    try:
        asked = asker.ask(request(), CONTEXT, lambda: True)
        sleep(1)
        assert not asked.done()
    finally:
        redis.config_set("maxmemory", 0)
    assert not asked.result(20).is_error
    asker.close()


def test_a_worker_that_cannot_look_up_an_asked_grader_waits_for_the_store(store: Store) -> None:
    """Otherwise the whole chunk would be scored, and paid for, again."""
    tries: list[str] = []

    def score(label: str, threads: Sequence[bytes], context: AskContext, wanted: Callable[[], bool]) -> list[Answer]:
        tries.append(label)
        if len(tries) < 3:
            raise RedisConnectionError("refused")
        return [Answer(b'{"reply":{"score":1.0}}', Spent(asks=1))] * len(threads)

    asked = b'{"ask":"grader","name":"other","thread":{"messages":[]}}'
    asker = Asker(store, HERE, waits_for_store=True)
    asker.score_other = score
    assert told(asker, asked)[0] == {"reply": {"score": 1.0}}
    asker.close()
    tries.clear()
    with asking(store) as asker:  # a person waits for this one
        asker.score_other = score
        with pytest.raises(RedisConnectionError):
            told(asker, asked)


def test_a_worker_that_waits_for_the_store_stops_in_time(tmp_path: Path) -> None:
    with redis_server(tmp_path) as url, ModelServer(Script(latency_s=1)) as server:
        asker = Asker(store_at(url, tmp_path, server), HERE, waits_for_store=True)
        asked = [asker.ask(request("1"), CONTEXT, lambda: True)]
        eventually(lambda: len(server.bodies) == 1)
    sleep(1.5)
    asked += [asker.ask(request("2"), CONTEXT, lambda: True)]
    sleep(0.5)
    began = monotonic()
    asker.close()
    assert monotonic() - began < 3
    assert all(each.done() for each in asked)


def test_a_paid_reply_is_given_to_a_person_and_counted_once_the_store_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_calls, "AWAY_S", 0.5)
    with ModelServer(Script(latency_s=1)) as server:
        with redis_server(tmp_path) as url:
            asker = Asker(store_at(url, tmp_path, server), HERE)
            asked = asker.ask(request(), CONTEXT, lambda: True)
            eventually(lambda: len(server.bodies) == 1)
        assert not asked.result(10).is_error
        assert error(asker, request("2"))["kind"] == "unreachable"
        with redis_server(tmp_path) as url:
            eventually(lambda: asks_counted(url) == {"asks": 1, "kept": 0, "input_tokens": 10})
            asker.close()


def test_a_store_that_is_away_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_calls, "AWAY_S", 1.0)
    with redis_server(tmp_path) as url, ModelServer(Script(latency_s=1)) as server:
        asker = Asker(store_at(url, tmp_path, server), HERE)
        told(asker, request("1"))
    sleep(2.1)
    found = error(asker, request("2"))
    assert (found["kind"], found["retryable"]) == ("unreachable", True)
    with pytest.raises(RedisConnectionError):  # a proof is not finished: a failed ask would make the grader invalid
        asker.ask(request("3"), CONTEXT._replace(timeouts=ValidationTimeouts()), lambda: True).result(20)
    began = monotonic()
    asker.close()
    assert monotonic() - began < 5
