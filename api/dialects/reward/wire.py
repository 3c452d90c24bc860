"""The requests and responses of RewardClient, which rejects a response with a missing or an additional member."""

from typing import Any, Literal

import msgspec

from api.intake import bodies
from gradebox.outcome import Outcome

NO_SCORE: Literal["NaN"] = "NaN"
"""The reward of a completion without a score, over a websocket, where every answer needs the same shape.

RewardClient parses this string as the float NaN, which is never a score; clients with strict parsing reject it.
"""


class Request(msgspec.Struct, forbid_unknown_fields=True):
    """One completion to be scored. The parts that a tenant writes are passed on unparsed."""

    turns: msgspec.Raw
    metadata: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    id: int | None = None


class BatchedRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Several completions."""

    requests: msgspec.Raw


class Response(msgspec.Struct):
    """One reward."""

    reward: float | Literal["NaN"]
    metadata: dict[str, Any]
    id: int | None = None


class BatchedResponse(msgspec.Struct):
    """A reward for each request, in order."""

    responses: list[Response]


class ServerInfo(msgspec.Struct):
    """The description of a reward server."""

    version: str
    name: str
    description: str


METADATA_SCHEMA = {"title": "Metadata", "type": "object", "additionalProperties": True}
"""Graders do not declare the metadata that they need, so all is allowed."""


def line_of(request: Request, longest: int) -> bytes:
    """Converts a request to a thread, one line of JSON. Raises ProblemError if it is longer than a thread may be."""
    metadata = b"{}" if bytes(request.metadata) == b"null" else bytes(request.metadata)
    thread = b'{"messages":%b,"metadata":%b}' % (bytes(request.turns), metadata)
    return bodies.line_of(thread, longest)


def response(outcome: Outcome, request_id: int | None) -> Response:
    """Converts an outcome to a response. Without a score, `metadata` has the error, or `not_applicable`."""
    told: dict[str, Any] = {"grader": outcome.grader, "run_ms": outcome.run_ms}
    told |= {name: said for name in ("reason", "stdout", "details") if (said := getattr(outcome, name)) is not None}
    if outcome.no_completion:
        told["no_completion"] = True
    if outcome.not_applicable is not None:
        return Response(NO_SCORE, {**told, "not_applicable": outcome.not_applicable}, request_id)
    if outcome.score is None:
        return Response(NO_SCORE, {**told, "error": msgspec.to_builtins(outcome.error)}, request_id)
    return Response(outcome.score, told, request_id)
