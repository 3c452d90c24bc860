"""The mark by which Redis and spool recognize each other. Redis keeps it, and the spool's file `owner` holds it.

A spool that has lost its mark may be a file system that is not mounted. What is written there would be lost with the
next mount, so nothing is.
"""

import secrets

from redis import Redis

from storage import redis_keys
from storage.connection import value_of
from storage.spool.spool import Spool


def match(redis: Redis, spool: Spool) -> str:
    """Marks an empty spool, once in the life of a Redis; from then on the spool is not written without a mark. Returns
    the mark that Redis keeps.

    Raises:
        OSError: the spool was to be marked, and is not writable.
    """
    mark = value_of(redis, redis_keys.SPOOL, secrets.token_hex(8))
    if not redis.exists(redis_keys.SPOOL_MARKED):
        if spool.mark() is None:
            spool.write_mark(mark)
        redis.set(redis_keys.SPOOL_MARKED, 1)
    spool.expect_mark(mark)
    return mark
