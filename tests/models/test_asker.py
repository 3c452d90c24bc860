"""What graders ask is answered, through real sockets and a real Redis."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from examples.model_server import ModelServer
from gradebox.outcome import Spent
from gradebox.schemas import ModelDefaults
from models.asker import Asker, Who
from models.settings import ModelSettings
from storage.store import Store

HERE = ModelSettings(model_hosts=("*",), model_private="on", model_reply_kb=1024, model_connect_s=2)
KEY = "sk-very-secret-of-a-model-0123456789"
ASKS = {"model:judge": "", "model:none": "", "endpoint:reward": "", "grader:other": "other@3"}
WHO = Who("default", "polite", "polite@1", asks=ASKS)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def asker(store: Store) -> Iterator[Asker]:
    asker = Asker(store, HERE)
    yield asker
    asker.close()


def register(store: Store, server: ModelServer, model: str = "m", timeout_s: float = 5) -> None:
    store.models.create("default", "judge", server.base_url, model, KEY, ModelDefaults(temperature=0), timeout_s)


def request(text: str = "?", **members: Any) -> bytes:
    asked = {"ask": "model", "name": "judge", "messages": [{"role": "user", "content": text}], "sample": 0, **members}
    return json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def told(asker: Asker, sent: bytes, who: Who = WHO) -> tuple[dict[str, Any], Spent]:
    answer = asker.ask(sent, who, lambda: True).result(30)
    assert KEY.encode() not in answer.body
    assert b"127.0.0.1" not in answer.body
    return json.loads(answer.body), answer.spent


def error(asker: Asker, sent: bytes, who: Who = WHO) -> dict[str, Any]:
    found = told(asker, sent, who)[0]["error"]
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


def test_only_what_the_version_names_is_asked(store: Store, server: ModelServer, asker: Asker) -> None:
    register(store, server)
    assert error(asker, request(), WHO._replace(asks={}))["kind"] == "unknown"
    assert error(asker, request(name="none"))["kind"] == "unknown"
    assert error(asker, b'{"ask":"endpoint","name":"reward","thread":{"messages":[]}}')["kind"] == "unknown"
    assert server.bodies == []


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (b"", "refused"),
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


def test_once_gets_its_value_back(asker: Asker) -> None:
    body, spent = told(asker, b'{"ask":"once","name":"fn","value":{"a":[1,2.50]}}')
    assert body == {"reply": {"a": [1, 2.5]}}
    assert spent == Spent()


def test_a_stand_in_asks_nobody(store: Store, server: ModelServer, asker: Asker) -> None:
    register(store, server)
    schema = {"type": "object", "properties": {"option": {"enum": ["no", "yes"]}}, "required": ["option"]}
    who = WHO._replace(stand_in=True)
    assert told(asker, request(schema=schema), who)[0]["reply"]["text"] == '{"option":"no"}'
    assert told(asker, request(), who)[0]["reply"]["text"] == "stand-in"
    endpoint = b'{"ask":"endpoint","name":"reward","thread":{"messages":[]}}'
    assert told(asker, endpoint, who)[0]["reply"] == {"reward": 0.0, "metadata": {}}
    assert server.bodies == []
