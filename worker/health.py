"""`python -m worker.health`: exits 0 when a worker of this host is known to Redis, else 1."""

import socket
import sys

from redis.exceptions import RedisError
from rq import Worker

from storage.connection import connect
from storage.settings import StorageSettings


def main() -> int:
    """Asks Redis. Returns the exit code."""
    try:
        workers = Worker.all(connection=connect(StorageSettings().redis_url))
    except RedisError as error:
        sys.stderr.write(f"Redis does not answer: {error}\n")
        return 1
    return 0 if any(worker.hostname == socket.gethostname() for worker in workers) else 1


if __name__ == "__main__":
    sys.exit(main())
