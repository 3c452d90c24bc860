"""`python -m worker.health`: exits with 0 if a worker of this host can do its work, else with 1, and prints problems.

It only reads the records in Redis, which each worker process updates every few seconds, even while it is busy.
"""

import socket
import sys

from redis.exceptions import RedisError

from storage.connection import connect
from storage.processes import ROLES, Processes, ProcessRecord
from storage.settings import StorageSettings


def main() -> int:
    """Reads the records of the workers from Redis. Returns the exit code."""
    try:
        processes = Processes(connect(StorageSettings().redis_url))
        workers = [worker for lane in ROLES for worker in processes.workers(lane)]
    except RedisError as error:
        sys.stderr.write(f"Redis does not answer: {error}\n")
        return 1
    here = [worker for worker in workers if worker.name.rpartition(":")[0] == socket.gethostname()]
    for line in _wrong(here):
        sys.stderr.write(f"{line}\n")
    return int(not any(not worker.trouble for worker in here))


def _wrong(here: list[ProcessRecord]) -> list[str]:
    if not here:
        return [f"no worker of host {socket.gethostname()!r} has reported in the last 20 s: start one, or see its log"]
    return [f"worker {worker.name}: {worker.trouble}" for worker in here if worker.trouble]


if __name__ == "__main__":
    sys.exit(main())
