"""The audit log: one line per change, written in the same transaction as the change.

Changes of batches have a separate stream in each project, so that thousands of batches do not push out other lines.
"""

from contextvars import ContextVar
from datetime import UTC, datetime
from itertools import chain

from redis import Redis
from redis.client import Pipeline

from gradebox.schemas import AuditLine
from storage import redis_keys
from storage.connection import text

LINES = 10_000

acting: ContextVar[dict[str, str] | None] = ContextVar("acting", default=None)
"""Who acts in this context: `key`, `address` and `request_id`. Actions of the service itself add no line."""


class Audit:
    """The audit lines of all projects. Each stream keeps the newest `lines`, or a few more."""

    def __init__(self, redis: Redis, lines: int = LINES) -> None:
        self._redis = redis
        self._lines = lines

    def write(self, pipe: Pipeline, project: str, action: str, item: str, detail: str = "") -> None:
        """Adds a line to a transaction.

        Args:
            action: a noun and a verb, such as `grader.create`.
            item: the object of the action.
        """
        if line := self.arguments(project, action, item, detail):
            pipe.execute_command("XADD", *line)  # type: ignore[no-untyped-call]  # in redis-py

    def arguments(self, project: str, action: str, item: str, detail: str = "") -> list[str]:
        """The arguments of the XADD that adds a line. Empty if the service itself acts."""
        who = acting.get()
        if not who:
            return []
        stream = redis_keys.audit_of_batches(project) if action.startswith("batch.") else redis_keys.audit(project)
        fields = {**who, "action": action, "object": item, "detail": detail}
        return [stream, "MAXLEN", "~", str(self._lines), "*", *chain.from_iterable(fields.items())]

    def newest(self, project: str, limit: int, before: str | None = None) -> list[AuditLine]:
        """The newest lines first; `before` continues after the line with that id. Two lines with the same id are not
        separated, so there may be one more than `limit`.
        """
        start = f"({before}" if before else "+"
        if before and not any(map(int, before.split("-"))):
            return []  # nothing precedes the first possible id, and Redis rejects the range as an error
        with self._redis.pipeline(transaction=False) as pipe:  # a full Redis refuses transactions
            for stream in (redis_keys.audit(project), redis_keys.audit_of_batches(project)):
                pipe.xrevrange(stream, start, "-", count=limit + 1)
            found = [_line(text(line_id), fields) for part in pipe.execute() for line_id, fields in part]
        found.sort(key=lambda line: tuple(map(int, line.id.split("-"))), reverse=True)
        twin = len(found) > limit and found[limit].id == found[limit - 1].id
        return found[: limit + twin]


def _line(line_id: str, fields: dict[bytes, bytes]) -> AuditLine:
    at = datetime.fromtimestamp(int(line_id.partition("-")[0]) / 1000, UTC)
    return AuditLine.model_validate({"id": line_id, "at": at, **{text(name): text(of) for name, of in fields.items()}})
