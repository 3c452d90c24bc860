"""Tests of every route for clients of other services (not in /openapi.json) with every kind of key."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute, APIWebSocketRoute
from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    build_schema,
    get_named_type,
    is_leaf_type,
    is_required_argument,
    is_required_input_field,
)

from api.dialects import routers
from api.dialects.adaptive.schema import SCHEMA
from api.settings import ApiSettings
from tests.api.access.test_auth import keyed
from tests.api.conftest import GOOD, Service
from tests.api.dialects.langfuse.conftest import evaluation
from tests.api.test_sweep import MARKS, allowed, filled, kept, strangers

__all__ = ["allowed", "filled", "strangers"]  # fixtures

GRADER = {"type": "python", "name": "g", "source": "def grade(sample, item):\n    return 1.0\n"}
OPENAI = {"grader": GRADER, "model_sample": "4", "item": {}}
DOCUMENT = build_schema(SCHEMA.as_str())
NAMED = {"id": MARKS[0], "project": "default", "idOrKey": "default", "projectIdOrKey": "default", "key": MARKS[0]}


def value(name: str, kind: Any) -> str:
    """A GraphQL literal of this type. Ids and keys are those of the content of project `default`."""
    if isinstance(kind, GraphQLNonNull):
        return value(name, kind.of_type)
    if isinstance(kind, GraphQLList):
        return "[]"
    if isinstance(kind, GraphQLInputObjectType):
        fields = [f"{n}: {value(n, f.type)}" for n, f in kind.fields.items() if is_required_input_field(f)]
        if kind.name == "GraderCreateInput":
            function = f"graderConfig: {{function: {{sourceCode: {json.dumps(GOOD)}}}}}"
            fields = ['name: "mine"', 'key: "mine"', "graderType: FUNCTION", function]
        return "{" + ", ".join(fields) + "}"
    if isinstance(kind, GraphQLEnumType):
        return str(next(iter(kind.values)))
    return {"Int": "1", "Float": "1.0", "Boolean": "true"}.get(kind.name, f'"{NAMED.get(name, "mine")}"')


def operations() -> Iterator[dict[str, str]]:
    """Each query and mutation of the schema, with all leaf fields that take no arguments."""
    for kind, root in (("query", DOCUMENT.query_type), ("mutation", DOCUMENT.mutation_type)):
        assert isinstance(root, GraphQLObjectType)
        for name, field in root.fields.items():
            given = [f"{n}: {value(n, a.type)}" for n, a in field.args.items() if is_required_argument(a)]
            told = get_named_type(field.type)
            fields = getattr(told, "fields", {})
            leaves = [n for n, f in fields.items() if is_leaf_type(get_named_type(f.type)) and not f.args]
            chosen = "{" + " ".join(["__typename", *leaves]) + "}" if hasattr(told, "fields") else ""
            yield {"query": f"{kind} {{ {name}{'(' + ', '.join(given) + ')' if given else ''} {chosen} }}"}


def requests() -> list[tuple[str, str, Any]]:
    """Method, path and body of a request for each operation of the dialects."""
    found: list[tuple[str, str, Any]] = []
    for router in routers(ApiSettings().dialects):
        for route in router.routes:
            if isinstance(route, APIWebSocketRoute):
                continue  # tests/api/dialects/reward/test_socket.py tests this route with invalid keys
            assert isinstance(route, APIRoute), route
            for method in sorted(route.methods or ()):
                sent = list(operations()) if "graphql" in route.path else [_body(route.path)]
                path = route.path.replace("{path:path}", "models").format(
                    project="default", key=MARKS[0], grader=MARKS[0], name="f"
                )
                found += [(method, path, body) for body in sent]
    return found


def _body(path: str) -> Any:
    if "/2015-03-31/" in path or path.startswith("/langfuse"):
        return evaluation()
    if path.startswith("/weave"):
        return {"schema_version": 1, "original_call": {"inputs": {}, "output": "4"}}
    if path.startswith("/promptfoo"):
        return {"output": "4"}
    asked = {"turns": [{"role": "assistant", "content": "4"}], "metadata": None, "id": None}
    if path.endswith("/score"):
        return asked
    return {"requests": [asked]} if path.endswith("/batch_score") else OPENAI


REQUESTS = requests()
# Langfuse sends no API key. It signs with a secret, which this service lacks; or its URL is wrong.
WITHOUT_KEYS = re.compile("has no secret for Langfuse|the endpoint must end in /langfuse/v1")


def ask(client: httpx.Client, request: tuple[str, str, Any]) -> httpx.Response:
    method, path, body = request
    return client.request(method, path, json=None if method in ("GET", "HEAD", "DELETE") else body)


def refused(response: httpx.Response) -> bool:
    """Whether the response is an error. GraphQL reports errors with status 200."""
    told = response.json()
    return response.status_code >= 400 or bool(told.get("errors"))


def test_the_operations_are_all_found() -> None:
    asked = " ".join(str(body) for _, _, body in REQUESTS)
    assert all(name in asked for name in ("deleteGrader(", "lockGrader(", "createGrader(", "grader(", "projects "))
    assert any("graders/run" in path for _, path, _ in REQUESTS)


def test_without_a_key_and_with_a_wrong_or_revoked_one(
    service: Service, strangers: list[httpx.Client], filled: dict[str, str]
) -> None:
    before = list(kept(service))
    for stranger in strangers:
        for request in REQUESTS:
            response = ask(stranger, request)
            assert refused(response), f"{request}: {response.text}"
            assert WITHOUT_KEYS.search(response.text) or "API key" in response.text, f"{request}: {response.text}"
            assert not any(mark in response.text for mark in MARKS), request
    assert list(kept(service)) == before


def test_keys_of_others_see_and_change_nothing(service: Service, client: httpx.Client, filled: dict[str, str]) -> None:
    with keyed(client, service, "manage", "other") as stranger:
        before = list(kept(service))
        for request in REQUESTS:
            response = ask(stranger, request)
            assert response.status_code < 500, f"{request}: {response.text}"
            told = (
                response.text.replace(MARKS[0], "") if refused(response) else response.text
            )  # an error repeats the requested key
            assert not any(mark in told for mark in MARKS), f"{request}: {response.text}"
        assert list(kept(service)) == before


@pytest.mark.parametrize("role", ["read", "score"])
def test_a_role_that_does_not_suffice_changes_nothing(
    service: Service, client: httpx.Client, filled: dict[str, str], role: str
) -> None:
    with keyed(client, service, role, "*") as narrow:
        before = list(kept(service))
        for request in REQUESTS:
            response = ask(narrow, request)
            assert response.status_code < 500, f"{request}: {response.text}"
            if "mutation" in str(request[2]) and "validate" not in str(request[2]):
                assert refused(response), f"{request}: {response.text}"
        assert list(kept(service)) == before


def test_a_role_that_suffices_is_let_through(service: Service, client: httpx.Client, filled: dict[str, str]) -> None:
    with keyed(client, service, "manage", "*") as manager:
        answers = {str(request): ask(manager, request) for request in REQUESTS}
    done = [request for request, response in answers.items() if not refused(response)]
    assert not any(response.status_code >= 500 for response in answers.values())
    for name in ("deleteGrader", "createGrader", "graders(", "projects", "graders/run", "graders/validate"):
        assert any(name in request for request in done), {r: a.text for r, a in answers.items() if name in r}
