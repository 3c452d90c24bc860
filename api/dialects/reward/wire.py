"""Requests and responses as RewardClient has them. It refuses a response with one member more or less."""

from typing import Any, Literal

import msgspec

from api.intake import bodies
from gradebox.outcome import Outcome

NO_SCORE: Literal["NaN"] = "NaN"
"""The reward of a completion that has none, over a websocket, where every request must be answered in the same shape.

RewardClient reads this string as the float NaN, which no score ever is; any client that reads strictly refuses it.
"""


class Request(msgspec.Struct, forbid_unknown_fields=True):
    """One completion to be scored. What a tenant wrote is passed on unparsed."""

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
    """What a reward server is."""

    version: str
    name: str
    description: str


METADATA_SCHEMA = {"title": "Metadata", "type": "object", "additionalProperties": True}
"""Graders do not say which metadata they need, so all is taken."""


def line_of(request: Request, longest: int) -> bytes:
    """A request as a thread, one line of JSON. Raises ProblemError where it is longer than a thread may be."""
    metadata = b"{}" if bytes(request.metadata) == b"null" else bytes(request.metadata)
    thread = b'{"messages":%b,"metadata":%b}' % (bytes(request.turns), metadata)
    return bodies.line_of(thread, longest)


def response(outcome: Outcome, request_id: int | None) -> Response:
    """An outcome as a response; one without a score has no reward, and in `metadata` its error, or `not_applicable`."""
    told: dict[str, Any] = {"grader": outcome.grader, "run_ms": outcome.run_ms}
    told |= {name: said for name in ("reason", "stdout", "details") if (said := getattr(outcome, name)) is not None}
    if outcome.not_applicable is not None:
        return Response(NO_SCORE, {**told, "not_applicable": outcome.not_applicable}, request_id)
    if outcome.score is None:
        return Response(NO_SCORE, {**told, "error": msgspec.to_builtins(outcome.error)}, request_id)
    return Response(outcome.score, told, request_id)
