"""The connection to Redis, and the Lua scripts that run there."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, cast

from redis import Redis
from redis.backoff import NoBackoff
from redis.client import Pipeline
from redis.commands.core import Script
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MasterDownError, OutOfMemoryError, ReadOnlyError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from storage import redis_keys
from storage.errors import UnknownFormat

FORMAT = 5
_FEW_REPLICAS = "NOREPLICAS"
_BUSY = "BUSY "  # a script has run for seconds, or the machine stood still in the middle of one

_T = TypeVar("_T")


def connect(url: str, *, blocking: bool = False) -> Redis:
    """A client of the Redis at `url`, which connects at first use.

    `blocking` is for connections that wait in Redis without a time limit, such as a worker's.

    The client never repeats a command: one whose reply was lost may have been executed, and only the caller can decide
    whether to repeat it.
    """
    return Redis.from_url(
        url, socket_timeout=None if blocking else 10.0, socket_connect_timeout=5.0, retry=Retry(NoBackoff(), 0)
    )


def is_full(error: RedisError) -> bool:
    """Whether Redis refuses to write because it lacks memory or disk space."""
    return isinstance(error, OutOfMemoryError) or _reply(error).startswith("MISCONF")


def write_trouble(redis: Redis) -> str | None:
    """Why Redis accepts no new data now; None if it does. Commands that only read still work then."""
    memory: Any = redis.info("memory")
    if 0 < memory["maxmemory"] <= memory["used_memory"]:
        return trouble_of(OutOfMemoryError())
    try:
        redis.hdel(redis_keys.PROCESSES, "")  # there is no such field
    except RedisError as error:
        if not is_away(error):
            raise
        return trouble_of(error)
    return None


def is_away(error: RedisError) -> bool:
    """Whether a later retry may succeed: Redis does not answer, or does not write now."""
    if is_full(error) or isinstance(error, RedisConnectionError | RedisTimeoutError | ReadOnlyError | MasterDownError):
        return True
    return _reply(error).startswith((_FEW_REPLICAS, _BUSY))


def trouble_of(error: RedisError) -> str:
    """What is so with a Redis for which `is_away` is true, for the log."""
    if isinstance(error, OutOfMemoryError):
        return "Redis has reached its maxmemory"
    if is_full(error):
        return "Redis cannot write to its disk"
    if _reply(error).startswith(_FEW_REPLICAS):
        return "Redis has fewer replicas than its min-replicas-to-write"
    return "Redis is read-only" if isinstance(error, ReadOnlyError) else "Redis does not answer"


def _reply(error: RedisError) -> str:
    """What Redis replied, without what redis-py puts before it in a pipeline."""
    return str(error).rpartition(" of pipeline caused error: ")[2]


def seconds(redis: Redis) -> float:
    """The time of the Redis server, because the clocks of machines differ."""
    whole, micros = redis.time()
    return whole + micros / 1e6


def clock(redis: Redis) -> datetime:
    """The same time, as the times of batches are stored."""
    return datetime.fromtimestamp(seconds(redis), UTC)


def value_of(redis: Redis, key: str, first: str | int) -> str:
    """The value of a key; if it has none, `first`, which is then stored.

    The key is looked up before it is set: a Redis that is full or read-only refuses that even if the key is there.
    """
    if not redis.exists(key):
        redis.set(key, first, nx=True)
    return text(redis.get(key) or b"")


def check_format(redis: Redis) -> None:
    """Marks an empty Redis with this format, and migrates older data to it step by step. Each step is atomic.

    Raises:
        UnknownFormat: a newer gradebox wrote the data.
    """
    found = int(value_of(redis, redis_keys.FORMAT, FORMAT))
    for later in range(found + 1, FORMAT + 1):
        script(redis, f"migrate_{later}")()
    if found > FORMAT:
        raise UnknownFormat(
            f"the data in Redis has format {found}, but this gradebox supports none later than {FORMAT}: "
            "run the gradebox that wrote it, or point GRADEBOX_REDIS_URL at another Redis"
        )


def load_scripts(redis: Redis) -> None:
    """Makes Redis compile every script now, so that no request waits for it at first use."""
    folder = files("storage") / "lua"
    names_of = (Path(str(file)).stem for file in folder.iterdir())
    for name in sorted(name for name in names_of if name != "common" and not name.startswith("migrate_")):
        redis.script_load(lua(name))


def transaction(redis: Redis, change: Callable[[Pipeline], _T], *watched: str) -> _T:
    """Runs `change` in a transaction, and again if another client changed what it had read. Returns its result."""
    untyped: Any = change  # redis-py's types declare that it returns None
    return cast(_T, redis.transaction(untyped, *watched, value_from_callable=True))


def read_snapshot(redis: Redis, ask: Callable[[Pipeline], None]) -> list[Any]:
    """The replies to the reading commands that `ask` queues, as of one moment.

    The reply to HGETALL is a dict; others are as Redis gives them to a script.

    A script runs them, because a Redis that has reached its `maxmemory` refuses transactions, even if they only read.
    """
    with redis.pipeline(transaction=False) as pipe:
        ask(pipe)
        commands = [words for words, _ in pipe.command_stack]
    replies = script(redis, "read_snapshot")(args=[word for words in commands for word in (len(words), *words)])
    return [
        dict(zip(*[iter(reply)] * 2, strict=True)) if words[0] == "HGETALL" else reply
        for words, reply in zip(commands, replies, strict=True)
    ]


def postpone(redis: Redis, times: str, member: str, at: float) -> None:
    """Sets the time of a member of a sorted set of times, if it is there; also while Redis is full."""
    script(redis, "postpone")(args=[times, member, at])


@lru_cache(64)  # a new object hashes its source, in a third of the time of a short command; each holds its client
def script(redis: Redis, name: str) -> Script:
    """The Lua script `name`, preceded by the shared functions."""
    return redis.register_script(lua(name))


@cache
def lua(name: str) -> str:
    """The source of a script, with the shared functions."""
    folder = files("storage") / "lua"
    return "".join((folder / f"{part}.lua").read_text("utf-8") for part in ("common", name))


def text(value: bytes | str) -> str:
    """A value from Redis, as text."""
    return value.decode() if isinstance(value, bytes) else value
