"""Who is signed in to the pages. A session is a random id that a browser holds; it is kept as its SHA-256."""

import hashlib
import secrets
from typing import Any

from redis import Redis

from storage import names
from storage.connection import text

SESSION_S = 7 * 24 * 3600  # from its beginning, however much it is used
LINK_S = 24 * 3600


class Sessions:
    """The sessions of all API keys, and links that each begin one, once."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def begin(self, key_id: str) -> str:
        """Begins a session of an API key, and returns its id: nobody else knows it."""
        session = secrets.token_urlsafe(32)
        self._redis.set(names.session(_digest(session)), key_id, ex=SESSION_S)
        return session

    def key_of(self, session: str) -> str | None:
        """The id of the API key that signed in, where the session lives."""
        found: Any = self._redis.get(names.session(_digest(session)))
        return None if found is None else text(found)

    def end(self, session: str) -> None:
        """Ends a session, if there is one."""
        self._redis.delete(names.session(_digest(session)))

    def make_link(self, key_id: str) -> str:
        """A token that signs in as this API key, once, within a day."""
        token = secrets.token_urlsafe(32)
        self._redis.set(names.sign_in(_digest(token)), key_id, ex=LINK_S)
        return token

    def take_link(self, token: str) -> str | None:
        """The id of the API key that the token is for; None where it was used, or is too old."""
        found: Any = self._redis.getdel(names.sign_in(_digest(token)))
        return None if found is None else text(found)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
