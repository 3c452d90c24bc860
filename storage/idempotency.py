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

_MOST_FINGERPRINT = 32  # bytes
MOST = 2000  # of a project; the oldest give way, for their requests are hardly repeated any more


class Once(NamedTuple):
    """A request that is to be done once: what its answer is kept under and for how long, and what tells it from others
    that come with the same key.
    """

    digest: str
    fingerprint: bytes
    keep_s: int
    project: str

    @property
    def name(self) -> str:
        """Where its answer is kept."""
        return names.answer(self.digest)


def once(project: str, key_id: str, idempotency_key: str, fingerprint: bytes, keep_s: int) -> Once:
    """A request of an API key in a project, with its Idempotency-Key. `fingerprint` has at most 32 bytes."""
    own = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32]
    # What a caller cannot choose comes first, so a collision that it finds is one of its own requests.
    digest = hashlib.sha1(f"{project}:{key_id}:{own}".encode(), usedforsecurity=False).hexdigest()[:24]
    return Once(digest, fingerprint, keep_s, project)


def answered(redis: Redis, request: Once | None) -> bytes | None:
    """What was answered to the same request before, or None.

    Raises:
        KeyReused: the key came with another request.
    """
    value = redis.get(request.name) if request else None
    return read(request, value if isinstance(value, bytes) else None)


def read(request: Once | None, value: bytes | None) -> bytes | None:
    """The answer in what is kept under the name of a request, or None. Raises KeyReused."""
    if request is None or not value:
        return None
    if value[0] > _MOST_FINGERPRINT:  # of an earlier gradebox: as text, and a line
        fingerprint, _, answer = value.partition(b"\n")
        is_same = fingerprint == request.fingerprint.hex().encode()
    else:
        fingerprint, answer = value[1 : 1 + value[0]], value[1 + value[0] :]
        is_same = fingerprint == request.fingerprint
    if not is_same:
        raise KeyReused(
            "this Idempotency-Key came with another request before: send a new key with each new request, "
            "and the same one only to repeat a request"
        )
    return answer


def keep(pipe: Pipeline, request: Once | None, answer: bytes) -> None:
    """Adds the answer to the transaction of what it tells of; `pipe` must have watched its name."""
    if request is not None:
        # As text: a Redis that was started again meanwhile would not know it by its hash.
        kept = pack(request, answer)
        pipe.eval(lua("remember_answer"), 0, request.project, request.digest, kept, MOST, request.keep_s)


def pack(request: Once, answer: bytes) -> bytes:
    """What is kept under the name of a request."""
    return bytes([len(request.fingerprint)]) + request.fingerprint + answer
