"""Sessions of users who are signed in to the web pages. A browser holds a random id; Redis stores its SHA-256."""

import hashlib
import secrets
from collections.abc import Callable
from typing import Any

from redis import Redis

from storage import redis_keys
from storage.connection import text

SESSION_S = 7 * 24 * 3600  # from the sign-in; use does not extend a session
LINK_S = 24 * 3600
MOST = 100  # sessions of an API key, and links: a new one ends the oldest. Otherwise one key could fill Redis


class Sessions:
    """The sessions of all API keys, and single-use links that begin a session."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def begin(self, key_id: str) -> str:
        """Begins a session of an API key. Returns its id, which is stored only as a hash."""
        return self._begin(redis_keys.session, redis_keys.sessions(key_id), key_id, SESSION_S)

    def key_of(self, session: str) -> str | None:
        """The id of the API key that signed in; None if the session does not exist or has expired."""
        found: Any = self._redis.get(redis_keys.session(_digest(session)))
        return None if found is None else text(found)

    def end(self, session: str) -> None:
        """Ends a session, if there is one."""
        self._redis.delete(redis_keys.session(_digest(session)))

    def make_link(self, key_id: str) -> str:
        """Returns a token that signs in as this API key, once, within a day."""
        return self._begin(redis_keys.sign_in, redis_keys.sign_ins(key_id), key_id, LINK_S)

    def _begin(self, name_of: Callable[[str], str], all_of_key: str, key_id: str, seconds: int) -> str:
        secret = secrets.token_urlsafe(32)
        name = name_of(_digest(secret))
        with self._redis.pipeline() as pipe:
            pipe.set(name, key_id, ex=seconds)
            pipe.rpush(all_of_key, name)
            pipe.lrange(all_of_key, 0, -MOST - 1)
            pipe.ltrim(all_of_key, -MOST, -1)
            pipe.expire(all_of_key, seconds)
            _, _, oldest, *_ = pipe.execute()
        if oldest:
            self._redis.delete(*oldest)
        return secret

    def take_link(self, token: str) -> str | None:
        """Uses up a token. Returns the id of its API key; None if the token was used before or has expired."""
        found: Any = self._redis.getdel(redis_keys.sign_in(_digest(token)))
        return None if found is None else text(found)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
