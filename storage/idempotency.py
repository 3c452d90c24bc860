"""Answers to requests that may be repeated, each stored in the transaction of the request's effect.

Two simultaneous requests are both processed. The transaction of the second finds the answer of the first, and is
abandoned. So there is no lock that a killed process could leave behind.
"""

import hashlib
from typing import NamedTuple

import msgspec
from redis import Redis
from redis.client import Pipeline

from storage import redis_keys
from storage.connection import lua
from storage.errors import KeyReused

_MOST_FINGERPRINT = 32  # bytes
MOST = 2000  # of a project. The oldest are dropped: their requests are unlikely to be repeated


class Once(NamedTuple):
    """A request to be done once: the digest that its answer is stored under, the time it is stored for, and the
    fingerprint that distinguishes it from other requests with the same Idempotency-Key.
    """

    digest: str
    fingerprint: bytes
    keep_s: int
    project: str

    @property
    def name(self) -> str:
        """The name of its answer in Redis."""
        return redis_keys.answer(self.digest)


class ToStore(msgspec.Struct):
    """Where and for how long a script stores the answer to a request."""

    digest: str
    most: int
    keep_s: int


def to_store(request: Once | None) -> ToStore | None:
    """What a script needs to store the answer to a request; None without one."""
    return None if request is None else ToStore(request.digest, MOST, request.keep_s)


def once(project: str, key_id: str, idempotency_key: str, fingerprint: bytes, keep_s: int) -> Once:
    """Identifies a request of an API key in a project by its Idempotency-Key. `fingerprint` has at most 32 bytes."""
    own = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32]
    # The parts that a caller cannot choose come first, so a collision that it finds is with a request of its own.
    digest = hashlib.sha1(f"{project}:{key_id}:{own}".encode(), usedforsecurity=False).hexdigest()[:24]
    return Once(digest, fingerprint, keep_s, project)


def answered(redis: Redis, request: Once | None) -> bytes | None:
    """The earlier answer to the same request, or None.

    Raises:
        KeyReused: the Idempotency-Key was used with another request.
    """
    value = redis.get(request.name) if request else None
    return read(request, value if isinstance(value, bytes) else None)


def read(request: Once | None, value: bytes | None) -> bytes | None:
    """The answer in the value stored for a request, or None. Raises KeyReused."""
    if request is None or not value:
        return None
    if value[0] > _MOST_FINGERPRINT:  # stored by an earlier gradebox: the fingerprint as text, and a line end
        fingerprint, _, answer = value.partition(b"\n")
        is_same = fingerprint == request.fingerprint.hex().encode()
    else:
        fingerprint, answer = value[1 : 1 + value[0]], value[1 + value[0] :]
        is_same = fingerprint == request.fingerprint
    if not is_same:
        raise KeyReused(
            "this Idempotency-Key was used with another request before: send a new key with each new request, "
            "and the same one only to repeat a request"
        )
    return answer


def keep(pipe: Pipeline, request: Once | None, answer: bytes) -> None:
    """Adds the answer to the transaction of its request; `pipe` must have watched its name."""
    if request is not None:
        # As text: a Redis that was restarted meanwhile does not have the script's hash.
        kept = pack(request, answer)
        pipe.eval(lua("keep_answer"), 0, request.project, request.digest, kept, MOST, request.keep_s)


def pack(request: Once, answer: bytes) -> bytes:
    """Packs the value stored for a request."""
    return bytes([len(request.fingerprint)]) + request.fingerprint + answer
