"""What was answered to requests that may come twice, kept in the transaction of what they did.

Two that come at once are both worked on; the transaction of the second finds the answer of the first, and is left. So
there is no lock that a killed process could leave behind.
"""

import hashlib
from typing import NamedTuple

from redis import Redis
from redis.client import Pipeline

from storage import names
from storage.connection import lua
from storage.errors import KeyReused

MOST = 2000  # of a project; the oldest give way, for their requests are hardly repeated any more


class Once(NamedTuple):
    """A request that is to be done once: where its answer is kept for how long, and what tells it from others."""

    name: str
    fingerprint: bytes
    keep_s: int
    project: str


def once(project: str, key_id: str, idempotency_key: str, fingerprint: str, keep_s: int) -> Once:
    """A request of an API key in a project, with its Idempotency-Key."""
    digest = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32]  # a collision is of one's own keys alone
    return Once(names.answer(project, key_id, digest), fingerprint.encode(), keep_s, project)


def answered(redis: Redis, request: Once | None) -> bytes | None:
    """What was answered to the same request before, or None.

    Raises:
        KeyReused: the key came with another request.
    """
    value = redis.get(request.name) if request else None
    if request is None or not isinstance(value, bytes):
        return None
    fingerprint, _, answer = value.partition(b"\n")
    if fingerprint != request.fingerprint:
        raise KeyReused(
            "this Idempotency-Key came with another request before: send a new key with each new request, "
            "and the same one only to repeat a request"
        )
    return answer


def keep(pipe: Pipeline, request: Once | None, answer: bytes) -> None:
    """Adds the answer to the transaction of what it tells of; `pipe` must have watched its name."""
    if request is not None:
        pipe.set(request.name, request.fingerprint + b"\n" + answer, ex=request.keep_s)
        # As text: a Redis that was started again meanwhile would not know it by its hash.
        pipe.eval(lua("remember_answer"), 0, names.answers(request.project), request.name, MOST, request.keep_s)
