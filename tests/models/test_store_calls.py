"""Tests of the calls of asks that Redis answers late, through a real Redis."""

import asyncio
import os
import signal
import threading
from pathlib import Path
from time import sleep

from redis import Redis

from gradebox.outcome import Spent
from models.store_calls import StoreCalls
from storage.access.audit import Audit
from storage.connection import connect
from storage.models.kept_replies import Keeping
from storage.models.spending import CountedAsk, SpendingStore, arguments
from tests.conftest import redis_server

CALLS = 500  # more than one round trip
ASKED = CountedAsk("default", "model:judge", "polite", "b1")
ONE = Spent(1, 0, 10, 5, 0.5)


async def count_all(redis: Redis, count_ask: SpendingStore) -> None:
    calls = StoreCalls(redis, "1-a")
    told = arguments(ASKED, Keeping(0, 1), ONE)
    await asyncio.gather(*(calls.call(count_ask.count, told, lasting=True, once=True) for _ in range(CALLS)))
    await calls.close()


def test_what_is_sent_again_because_redis_stood_still_counts_once(tmp_path: Path) -> None:
    """Redis reads what it was sent before it stood still, too, when it goes on."""
    with redis_server(tmp_path) as url:
        redis = Redis.from_url(url, socket_timeout=0.5)
        spending = SpendingStore(connect(url), Audit(connect(url)))
        redis.script_load(spending.count.script)
        pid = int(redis.info("server")["process_id"])
        os.kill(pid, signal.SIGSTOP)
        counting = threading.Thread(target=lambda: asyncio.run(count_all(redis, spending)))
        counting.start()
        try:
            sleep(2.5)
        finally:
            os.kill(pid, signal.SIGCONT)
        counting.join(20)
        assert not counting.is_alive()
        found = spending.told("default").total
        assert (found.asks, found.input_tokens) == (CALLS, 10 * CALLS)
