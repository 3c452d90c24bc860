"""What is counted of the whole service, for metrics. Counts live in Redis, so that no death of a process takes them
back: what batches are made of is counted in the transactions that change them, the rest is told by each process.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec
from redis import Redis

from storage import names
from storage.connection import lua, text

TELL_S = 5.0  # how often a process tells
_SILENT_S = 20.0  # a process that said nothing for so long is gone
_AT_ONCE = 500
COMPLETED = "completed:"
"""Before `project:key:field` in the name of a count: completions that were scored without a batch."""


class Process(msgspec.Struct, frozen=True):
    """One process, as it measured itself."""

    role: str
    name: str
    resident_bytes: int
    sandboxes: int
    at: float = 0.0
    trouble: str = ""
    """Why it cannot do its work, where it cannot."""


class Queue(msgspec.Struct):
    """The batches that are not over."""

    queued: int = 0
    running: int = 0
    chunks: int = 0
    """That no worker has."""
    oldest_s: float = 0.0
    """How long the oldest of the queued ones has waited for its first chunk to be taken."""


class Reading(msgspec.Struct):
    """All that is counted, from about one moment."""

    totals: dict[str, float]
    graders: dict[str, dict[str, float]]
    """By `project:key`; `rest` is all those together that are not told apart."""
    waiting: dict[str, int]
    """Completions without an outcome, by project."""
    queue: Queue
    lent: int
    """Chunks that workers have."""
    processes: list[Process]
    redis_bytes: int


class Measures:
    """The counts of all processes."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def tell(self, process: Process, counts: Mapping[str, float]) -> None:
        """Adds the counts of one process since it last told, and notes what it measured of itself."""
        completed: dict[str, list[str]] = defaultdict(list)
        with self._redis.pipeline() as pipe:
            for name, by in counts.items():
                if name.startswith(COMPLETED):
                    project, key, field = name.removeprefix(COMPLETED).split(":", 2)
                    completed[f"{project} {key}"] += [field, str(by)]
                else:
                    pipe.hincrbyfloat(names.TOTALS, f"{process.role}:{name}", by)
            for grader, fields in completed.items():
                pipe.eval(lua("measure"), 0, *grader.split(), *fields)
            record = msgspec.json.encode(msgspec.structs.replace(process, at=time.time()))
            pipe.hset(names.PROCESSES, f"{process.role}:{process.name}", record)
            pipe.execute()

    def leave(self, process: Process) -> None:
        """Notes that a process ends."""
        self._redis.hdel(names.PROCESSES, f"{process.role}:{process.name}")

    def read(self) -> Reading:
        """What there is to tell.

        Raises:
            RedisError: Redis could not be asked.
        """
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(names.TOTALS)
            pipe.zrange(names.MEASURED, 0, -1)
            pipe.hgetall(names.WAITING)
            pipe.zcard(names.LEASES)
            pipe.info("memory")
            totals, measured, waiting, lent, memory = pipe.execute()
        return Reading(
            totals=_floats(totals),
            graders=self._graders([text(name) for name in measured]),
            waiting={text(project): int(count) for project, count in waiting.items()},
            queue=self._queue(),
            lent=lent,
            processes=list(self._processes()),
            redis_bytes=memory["used_memory"],
        )

    def _graders(self, measured: list[str]) -> dict[str, dict[str, float]]:
        wanted = [*measured, "rest"]
        with self._redis.pipeline(transaction=False) as pipe:
            for name in wanted:
                pipe.hgetall(names.measures(name))
            return {name: _floats(counts) for name, counts in zip(wanted, pipe.execute(), strict=True)}

    def _queue(self) -> Queue:
        queue = Queue()
        ids = [text(found) for found in self._redis.smembers(names.OPEN)]
        for first in range(0, len(ids), _AT_ONCE):
            with self._redis.pipeline(transaction=False) as pipe:
                for batch_id in ids[first : first + _AT_ONCE]:
                    pipe.hmget(names.batch(batch_id), "state", "units", "next", "created_at")
                    pipe.llen(names.returned(batch_id))
                found = pipe.execute()
            for fields, returned in zip(found[::2], found[1::2], strict=True):
                if fields[0] is not None:
                    _add(queue, [text(field) for field in fields], returned)
        return queue

    def workers(self) -> list[Process]:
        """The worker processes that were heard of of late. It changes nothing."""
        processes = [msgspec.json.decode(record, type=Process) for record in self._redis.hvals(names.PROCESSES)]
        return [process for process in processes if process.role == "worker" and _is_heard(process)]

    def _processes(self) -> Iterator[Process]:
        for name, record in self._redis.hgetall(names.PROCESSES).items():
            process = msgspec.json.decode(record, type=Process)
            if _is_heard(process):
                yield process
            else:
                self._redis.hdel(names.PROCESSES, text(name))


def _is_heard(process: Process) -> bool:
    return time.time() - process.at < _SILENT_S


def _add(queue: Queue, fields: Sequence[str], returned: int) -> None:
    state, units, following, created_at = fields
    queue.chunks += max(int(units) - int(following), 0) + returned
    if state == "queued":
        queue.queued += 1
        waited = time.time() - datetime.fromisoformat(created_at).timestamp()
        queue.oldest_s = max(queue.oldest_s, waited)
    else:
        queue.running += 1


def _floats(found: Mapping[bytes | str, bytes | str]) -> dict[str, float]:
    return {text(name): float(value) for name, value in found.items()}
