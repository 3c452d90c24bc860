"""Adds to /openapi.json what FastAPI cannot derive: bodies that are parsed by hand, and all problems."""

from typing import Any

import msgspec
from fastapi import FastAPI

from gradebox.schemas import Problem

_REF = "#/components/schemas/{name}"
# Any JSON: the sandbox checks it, and an invalid thread results in an outcome of kind `bad_input`.
_THREAD = {
    "description": "input of a grader: `messages`, `turns`, or `prompt` and `completion`; `id` and `metadata`",
    "examples": [
        {
            "id": "sample-1",
            "messages": [{"role": "user", "content": "What is 2+2?"}, {"role": "assistant", "content": "4"}],
            "metadata": {"answer": "4"},
        }
    ],
}
# Fields that structs hold as raw JSON, described by their intended type.
_UNPARSED: dict[str, dict[str, Any]] = {
    "source": {
        "type": "string",
        "description": "Python with `async def grade(thread)`, at most 64 KiB, or as the project's limit is",
    },
    "config": {"type": "object", "description": "settings of the `kind`, in place of a source"},
    "threads": {"type": "array", "minItems": 1, "items": {"$ref": _REF.format(name="Thread")}},
}
_schemas: dict[str, Any] = {"Thread": _THREAD}

WITHOUT_KEY_TOO: dict[str, Any] = {"security": [{}]}
SOURCE_FILE: dict[str, Any] = {"text/x-python": {"schema": {}}}
FORM = {
    "multipart/form-data": {
        "schema": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}},
    }
}
JSON_LINES = {"application/x-ndjson": {"schema": {"type": "string", "description": "one thread per line"}}}


def body(kind: type[msgspec.Struct], *, also: dict[str, Any] | None = None) -> dict[str, Any]:
    """The `openapi_extra` of a route that takes this struct as JSON. `also`: other media types it takes."""
    schema, components = _described(kind)
    for component in components.values():
        properties = component.get("properties", {})
        for name in _UNPARSED.keys() & properties.keys():
            optional = name not in component.get("required", ())
            properties[name] = {"anyOf": [_UNPARSED[name], {"type": "null"}]} if optional else _UNPARSED[name]
    _keep(components)
    described = {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}, **(also or {})}}}
    if also and SOURCE_FILE.keys() & also.keys():
        return {**described, "parameters": _options(components[kind.__name__])}
    return described


def answer(kind: type[msgspec.Struct]) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that returns this struct as JSON."""
    schema, components = _described(kind)
    _keep(components)
    return {200: {"content": {"application/json": {"schema": schema}}}}


def _described(kind: type[msgspec.Struct]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    (schema,), components = msgspec.json.schema_components([kind], ref_template=_REF)
    return schema, components


def _keep(components: dict[str, dict[str, Any]]) -> None:
    for name, component in components.items():
        assert _schemas.setdefault(name, component) == component, f"two structs are called {name}"


def bytes_of(media_type: str, description: str) -> dict[str, Any]:
    """The `openapi_extra` of a route that takes a file."""
    schema = {"type": "string", "format": "binary", "description": description}
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}}


def _options(component: dict[str, Any]) -> list[dict[str, Any]]:
    """The query parameters of a source file, which a JSON body has as fields."""
    in_body = {*_UNPARSED, "kind"}  # a kind replaces a source
    named = {name: schema for name, schema in component["properties"].items() if name not in in_body}
    told = {"in": "query", "required": False, "description": "only for a source file"}
    return [{"name": name, **told, "schema": schema} for name, schema in named.items()]


def describe(app: FastAPI) -> None:
    """Completes the OpenAPI document of this app."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(generate())
        return generate()

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI documents this way


def _complete(document: dict[str, Any]) -> None:
    components = document["components"]["schemas"]
    components.update({"Problem": Problem.model_json_schema(), **_schemas})
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if operation.get("security"):
                operation["responses"].update({str(status): _PROBLEM for status in _statuses(path, method, operation)})
    for unused in ("HTTPValidationError", "ValidationError"):
        components.pop(unused, None)


_PROBLEM = {
    "description": "a problem, with advice on what to do",
    "content": {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}},
}


_READ_OUTCOMES = ("/outcomes", "/scores", "/table", "/errors", "/agreement", "/compare", "/retry", "/feedback")


def _statuses(path: str, method: str, operation: dict[str, Any]) -> set[int]:
    """The problem statuses that an operation may return."""
    statuses = {401, 429, 503}
    changes = method != "get"
    if changes:
        statuses.add(507)
    if changes or path.endswith(("/audit", "/keys", "/metrics")):
        statuses.add(403)
    if "{" in path or (changes and path == "/v1/keys"):
        statuses.add(404)
    if changes and path != "/v1/keys":
        statuses.add(409)
    if "requestBody" in operation:
        statuses |= {408, 413, 415}
    if "requestBody" in operation or operation.get("parameters"):
        statuses.add(422)
    if path.endswith("/score"):
        statuses.add(504)
    if path.endswith(_READ_OUTCOMES):
        statuses.add(410)
    if any(parameter["name"] == "if-match" for parameter in operation.get("parameters", ())):
        statuses.add(412)
    return statuses
