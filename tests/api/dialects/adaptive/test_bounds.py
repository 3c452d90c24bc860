"""Tests of queries that no SDK sends."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.gradebox.conftest import Service

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

Ask = Callable[..., dict[str, Any]]
LAUGHS = "".join(f"fragment f{n} on Project {{ ...f{n + 1} ...f{n + 1} }} " for n in range(40))
MODEL = "{ graders(project: 1) { graderConfig { ... on JudgeConfigOutput { model { "
DEEP = MODEL + "backbone { " * 20 + "id" + " }" * 20 + " } } } } }"
PROJECT = rb'{"query": "query Q($s: IdOrKey!) { graders(project: $s) { id } }", "variables": {"s": "'
CIRCLE = "query { projects { ...a } } fragment a on Project { ...b } fragment b on Project { ...a }"


def message(answer: dict[str, Any]) -> str:
    assert not answer.get("data")
    return str(answer["errors"][0]["message"])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("{ projects { id", "Syntax Error"),
        ("{ secrets }", "Cannot query field 'secrets'"),
        ("", "Expected `str` of length >= 1"),
        ("fragment a on Project { id }", "the query has no operation"),
        ("{ " + " ".join(f"a{n}: me {{ id }}" for n in range(20)) + " }", "more than 10 aliases"),
        (DEEP, "more than 10 levels deep"),
        ("{ me " * 300 + "}" * 300, "nested too deeply"),
        ("{ me " * 160 + "}" * 160, "more than 10 levels deep"),
        ("{ " + "id " * 600 + "}", "more than 500 tokens"),
        (f"{{ projects {{ ...f0 }} }} {LAUGHS} fragment f40 on Project {{ nothing }}", "Cannot query field 'nothing'"),
        (CIRCLE, "Cannot spread fragment 'a' within itself"),
        ("{ projects { ...nothing } }", "Unknown fragment 'nothing'"),
        ("{ __schema { types { name } } }", "introspection"),
        ("subscription { x }", "subscription"),
        ("mutation { lockGrader(project: \"a\", id: \"b\", locked: \"x\") { id } }", "Boolean cannot represent"),
        ("{ graders(project: 1) { id } }", "an id or a key is a string: put it in quotes"),
    ],
)  # fmt: skip
def test_a_query_that_cannot_be_answered_says_why_at_once(ask: Ask, query: str, expected: str) -> None:
    started = time.monotonic()
    answer = ask(query)
    assert expected in message(answer)
    assert "Traceback" not in str(answer)
    assert time.monotonic() - started < 5


def test_a_variable_that_is_no_id_says_so(ask: Ask) -> None:
    query = 'query Q($id: IdOrKey!) { grader(project: "default", id: $id) { id } }'
    for sent in (7, {"key": "a"}, ["a"]):
        assert "Variable '$id' has invalid value" in message(ask(query, id=sent))


def test_fragments_that_use_each_other_are_answered(ask: Ask) -> None:
    answer = ask(f"{{ projects {{ ...f0 }} }} {LAUGHS} fragment f40 on Project {{ key }}")
    assert {"key": "default"} in answer["data"]["projects"]


@pytest.mark.parametrize(
    ("content", "headers", "expected"),
    [
        (b'{"query": ', {}, "the body is not JSON"),
        (b"[]", {}, "the body is invalid"),
        (b'{"query": 1}', {}, "Expected `str`"),
        (b'{"query": "{me{id}}", "variables": ' + b"[" * 5000, {}, "the body is invalid"),
        (b'{"query": "' + b"x" * (1 << 20) + b'"}', {}, "longer than 1048576 bytes"),
        (b"query=1", {"Content-Type": "application/x-www-form-urlencoded"}, "this takes application/json"),
        (b'{"query": "{me{id}}"}', {"Authorization": "Basic eDp5"}, "no API key was sent"),
        (b'{"query": "{me{id}}", "operationName": "Other"}', {}, "Other"),
        (PROJECT + rb'\ud83d"}}', {}, "not JSON"),  # half an emoji
        (PROJECT + rb'\ud83d\ude00"}}', {}, "'\N{GRINNING FACE}'"),  # a whole one is kept
    ],
)
def test_a_body_that_is_no_operation_says_why(
    service: Service, content: bytes, headers: dict[str, str], expected: str
) -> None:
    usual = {"Authorization": f"Bearer {service.key}", "Content-Type": "application/json"}
    response = httpx.post(f"{service.url}/api/graphql", content=content, headers=usual | headers)
    assert response.status_code == 200
    assert expected in message(response.json())


def test_only_posts_are_taken(service: Service) -> None:
    assert httpx.get(f"{service.url}/api/graphql").status_code == 405


CREATE = "mutation($p: IdOrKey!, $i: GraderCreateInput!) { createGrader(project: $p, input: $i) { key } }"
ONE = "graders(project: $p) { graderConfig { ... on FunctionConfigOutput { sourceCode } } }"
SOURCE = f"async def grade(thread):\n    return 1.0\n#{'x' * 65_000}\n"
MANY = 54  # ten times as many sources exceed the limit of an answer


@pytest.mark.slow
def test_an_answer_is_bounded_in_bytes(ask: Ask, project: str) -> None:
    for number in range(MANY):
        config = {"function": {"sourceCode": SOURCE}}
        wanted = {"name": "x", "key": f"j{number}", "graderType": "FUNCTION", "graderConfig": config}
        made = ask(CREATE, p=project, i=wanted)
        assert made["data"], made
    listed = ask(f"query($p: IdOrKey!) {{ {ONE} }}", p=project)["data"]["graders"]
    assert [len(grader["graderConfig"]["sourceCode"]) for grader in listed] == [len(SOURCE)] * MANY
    often = " ".join(f"a{number}: {ONE}" for number in range(10))
    assert "longer than 33554432 bytes" in message(ask(f"query($p: IdOrKey!) {{ {often} }}", p=project))
    names = " ".join(f"a{number}: sourceCode" for number in range(10))
    one = ONE.replace("sourceCode", names)
    assert "longer than 33554432 bytes" in message(ask(f"query($p: IdOrKey!) {{ {one} }}", p=project))
