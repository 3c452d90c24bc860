"""Langfuse's request: a source, and one observation to evaluate."""

from typing import Annotated

import msgspec

from api.http.problems import invalid
from api.intake import bodies

BODY_BYTES = 6 * bodies.MIB  # Langfuse sends 5.5 MiB at most
SOURCE_BYTES = 256 * 1024

_Id = Annotated[str, msgspec.Meta(pattern=r"^[^/\x00-\x1f]{1,200}$")]  # no slash: it separates two of these


class Scope(msgspec.Struct, rename="camel"):
    """The owner of the evaluator."""

    organization_id: _Id
    project_id: _Id

    @property
    def tenant(self) -> str:
        """The Langfuse project, as a name that no project here can have."""
        return f"langfuse:{self.organization_id}/{self.project_id}"


class Runtime(msgspec.Struct):
    """The language of the source."""

    language: Annotated[str, msgspec.Meta(max_length=40)]


class Code(msgspec.Struct):
    """The evaluator."""

    source: msgspec.Raw


class Payload(msgspec.Struct):
    """What is evaluated."""

    observation: msgspec.Raw


class EvaluationRequest(msgspec.Struct):
    """One evaluation. The parts that tenants write are passed on unparsed."""

    scope: Scope
    runtime: Runtime
    code: msgspec.Raw
    payload: msgspec.Raw

    @property
    def source(self) -> bytes:
        """The source as a JSON string. Raises ProblemError if there is none."""
        return bytes(bodies.parse(bytes(self.code), Code).source)

    @property
    def line(self) -> bytes:
        """The evaluator's thread, with the payload as its metadata. Raises ProblemError."""
        payload = bytes(self.payload)
        if bytes(bodies.parse(payload, Payload).observation)[:1] != b"{":
            raise invalid("`payload.observation` must be an object")
        return bodies.line_of(b'{"messages":[],"metadata":%b}' % payload, BODY_BYTES)
