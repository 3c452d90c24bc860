"""API keys. Each secret is long and random, so a plain SHA-256 of it is stored: it cannot be guessed."""

import hashlib
import hmac
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import structlog
from redis import Redis

from gradebox.key_file import NEW_KEY_FILE, id_of, new_token
from gradebox.schemas import ApiKey, Role
from storage import redis_keys
from storage.access.audit import Audit
from storage.access.own_limits import OwnLimits, limits_in
from storage.connection import script
from storage.errors import NotFound
from storage.spool.disk import create_private

EVERY_PROJECT = "*"
REVOKED = 1000  # revoked keys that are listed, beside the last one
_log = structlog.get_logger(__name__)


class _Record(msgspec.Struct):
    id: str
    name: str
    projects: list[str]
    created_at: datetime
    sha256: str
    revoked: bool = False
    role: Role = "manage"  # keys created before roles existed could do everything in their projects


class ApiKeys:
    """All API keys of this deployment."""

    def __init__(self, redis: Redis, audit: Audit) -> None:
        self._redis = redis
        self._audit = audit

    def create(self, name: str, projects: list[str], role: Role = "manage") -> ApiKey:
        """Creates a key for these projects in this role. Only the returned key contains its secret."""
        token = new_token()
        record = _record(token, name, projects, role)
        with self._redis.pipeline() as pipe:
            pipe.hset(redis_keys.API_KEYS, record.id, msgspec.json.encode(record))
            self._audit.write(pipe, EVERY_PROJECT, "key.create", record.id, f"{role} for {', '.join(projects)}")
            pipe.execute()
        return _shown(record, token)

    def all(self) -> list[ApiKey]:
        """All keys, including the newest revoked ones, oldest first."""
        records = (msgspec.json.decode(value, type=_Record) for value in self._redis.hvals(redis_keys.API_KEYS))
        return [_shown(record) for record in sorted(records, key=lambda record: record.created_at)]

    def has_any(self) -> bool:
        """Whether there is a key, if only a revoked one. There is one after the first start."""
        return bool(self._redis.exists(redis_keys.API_KEYS))

    def revoke(self, key_id: str) -> None:
        """Revokes a key, at once and permanently, even if Redis is full. Of many revoked keys, the oldest are removed.

        Raises:
            NotFound: there is no such key.
        """
        value = self._redis.hget(redis_keys.API_KEYS, key_id)
        if value is None:
            raise NotFound(f"there is no API key {key_id!r}: list the keys to see their ids")
        record = msgspec.json.decode(value, type=_Record)
        record.revoked = True  # nothing else of a key ever changes
        line = self._audit.arguments(EVERY_PROJECT, "key.revoke", key_id)
        script(self._redis, "revoke_key")(args=[key_id, msgspec.json.encode(record), *line])
        if old := [key.id for key in self.all() if key.revoked and key.id != key_id][:-REVOKED]:
            self._redis.hdel(redis_keys.API_KEYS, *old)

    def find(self, token: str) -> ApiKey | None:
        """The key with this secret, unless it is revoked."""
        return self.find_in(token, "")[0]

    def find_in(self, token: str, project: str) -> tuple[ApiKey | None, OwnLimits | None]:
        """The key as by `find`, and the project's own limits, None if there is no such project: both in one round trip
        to Redis.
        """
        key_id = id_of(token)
        if key_id is None:
            return None, None
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hget(redis_keys.API_KEYS, key_id)
            pipe.hget(redis_keys.PROJECTS, project)
            value, found = pipe.execute()
        if value is None:
            return None, None
        record = msgspec.json.decode(value, type=_Record)
        if record.revoked or not hmac.compare_digest(record.sha256, _digest(token)):
            return None, None
        return _shown(record), None if found is None else limits_in(found)

    def by_id(self, key_id: str) -> ApiKey | None:
        """The key with this id, unless it is revoked. For callers that presented the secret earlier."""
        value = self._redis.hget(redis_keys.API_KEYS, key_id)
        if value is None:
            return None
        record = msgspec.json.decode(value, type=_Record)
        return None if record.revoked else _shown(record)

    def ensure_first(self, path: Path) -> None:
        """Creates a key for every project and writes it to the file `path` with mode 0600, if this deployment has no
        key yet.

        The file is authoritative. It is linked into place whole, so several processes that start at once, or one that
        is killed halfway and restarted, all end up with the one key in the file.
        """
        self._recover(path.with_name(NEW_KEY_FILE), path)
        if self.has_any():
            return
        create_private(path, f"{new_token()}\n".encode("ascii"))
        record = _record(path.read_text("ascii").strip(), "first", [EVERY_PROJECT], "manage")
        self._redis.hsetnx(redis_keys.API_KEYS, record.id, msgspec.json.encode(record))

    def _recover(self, new: Path, path: Path) -> None:
        """Creates a key for every project from the secret in the file `new`, and moves that file to `path`. Every step
        is idempotent and safe with several processes at once.
        """
        try:
            token = new.read_text("ascii").strip()
        except FileNotFoundError:
            return
        if id_of(token) is None:
            _log.error("the file holds no API key: run `gradebox keys recover` again", file=str(new))
            return
        record = _record(token, "recovered", [EVERY_PROJECT], "manage")
        if self._redis.hsetnx(redis_keys.API_KEYS, record.id, msgspec.json.encode(record)):
            _log.warning("created an API key for every project, as `gradebox keys recover` requested", key=record.id)
        with suppress(FileNotFoundError):  # another process was first
            new.replace(path)


def _record(token: str, name: str, projects: list[str], role: Role) -> _Record:
    return _Record(token.split("_")[1], name, projects, datetime.now(UTC), _digest(token), role=role)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _shown(record: _Record, secret: str | None = None) -> ApiKey:
    return ApiKey(
        id=record.id,
        name=record.name,
        projects=record.projects,
        role=record.role,
        created_at=record.created_at,
        revoked=record.revoked,
        secret=secret,
    )
