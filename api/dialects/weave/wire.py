"""Requests and answers of Weave's RemoteScorer, in both versions of its schema."""

from typing import Literal

import msgspec

_NOTHING = msgspec.Raw(b"null")


class ScoringTarget(msgspec.Struct):
    """What version 2 has scored: a call, or the turn of an agent. What a tenant wrote is passed on unparsed."""

    type: Literal["call", "agent_turn"]
    payload: msgspec.Raw


class ScoringRequest(msgspec.Struct):
    """One call to be scored. Version 1 has it as `original_call`, version 2 as `scoring_target`."""

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
    """What is answered: the version is that of the request."""

    schema_version: int
    result: ScoringResult
