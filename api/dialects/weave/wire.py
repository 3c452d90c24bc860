"""The requests and responses of Weave's RemoteScorer, in both versions of its schema."""

from typing import Literal

import msgspec

TARGETS = (("call", 1), ("agent_turn", 1))
"""The types of a `scoring_target` with the versions of their payloads."""

_NOTHING = msgspec.Raw(b"null")


class ScoringTarget(msgspec.Struct):
    """The input in version 2: a call, or an agent's turn. The parts that a tenant writes are passed on unparsed."""

    type: str
    payload: msgspec.Raw
    schema_version: int = 1


class ScoringRequest(msgspec.Struct):
    """One call to be scored: `original_call` in version 1, `scoring_target` in version 2."""

    schema_version: Literal[1, 2]
    original_call: msgspec.Raw = _NOTHING
    scoring_target: msgspec.Raw = _NOTHING
    scorer: msgspec.Raw = _NOTHING
    monitor: msgspec.Raw = _NOTHING


class ScoringResult(msgspec.Struct, omit_defaults=True):
    """A score, from 0 to 1."""

    value: float
    reason: str | None = None


class ScoringAnswer(msgspec.Struct):
    """The response, which has the request's schema version."""

    schema_version: int
    result: ScoringResult
