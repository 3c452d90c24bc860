"""Sessions of users who are signed in to the web pages. A browser holds a random id; Redis stores its SHA-256."""

import hashlib
import secrets
from typing import Any

from redis import Redis

from storage import redis_keys
from storage.connection import text

SESSION_S = 7 * 24 * 3600  # from the sign-in; use does not extend a session
LINK_S = 24 * 3600


class Sessions:
    """The sessions of all API keys, and single-use links that begin a session."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def begin(self, key_id: str) -> str:
        """Begins a session of an API key. Returns its id, which is stored only as a hash."""
        session = secrets.token_urlsafe(32)
        self._redis.set(redis_keys.session(_digest(session)), key_id, ex=SESSION_S)
        return session

    def key_of(self, session: str) -> str | None:
        """The id of the API key that signed in; None if the session does not exist or has expired."""
        found: Any = self._redis.get(redis_keys.session(_digest(session)))
        return None if found is None else text(found)

    def end(self, session: str) -> None:
        """Ends a session, if there is one."""
        self._redis.delete(redis_keys.session(_digest(session)))

    def make_link(self, key_id: str) -> str:
        """Returns a token that signs in as this API key, once, within a day."""
        token = secrets.token_urlsafe(32)
        self._redis.set(redis_keys.sign_in(_digest(token)), key_id, ex=LINK_S)
        return token

    def take_link(self, token: str) -> str | None:
        """Uses up a token. Returns the id of its API key; None if the token was used before or has expired."""
        found: Any = self._redis.getdel(redis_keys.sign_in(_digest(token)))
        return None if found is None else text(found)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
