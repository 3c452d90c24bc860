import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from storage.settings import StorageSettings
from storage.store import Store, first_start, open_store
from tests.conftest import redis_server
from tests.waiting import eventually
from tests.worker.conftest import Worker, over, scores, submit, workers
from worker.dispatch import Dispatch

SLOW = "import time\nasync def grade(thread):\n    time.sleep(0.001)\n    return float(thread.completion())\n"


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_redis_that_is_killed_and_comes_back_loses_nothing(tmp_path: Path) -> None:
    with ExitStack() as first:
        settings = StorageSettings(
            redis_url=first.enter_context(redis_server(tmp_path)), data_dir=tmp_path / "data", spool_url=""
        )
        store = open_store(settings)
        first_start(store, settings)
        with workers(store, settings) as start:
            worker = start()
            batch = submit(store, Dispatch(store), 5000, SLOW)
            eventually(lambda: store.batches.get("default", batch, summary=False).done >= 1000)
            first.close()
            with redis_server(tmp_path):
                found = over(store, batch)
                assert (found.done, found.scored, found.errors) == (5000, 5000, {})
                assert scores(store, batch) == [float(number) for number in range(5000)]
                worker.terminate()
                assert worker.wait(15) == 0


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_spool_that_is_not_mounted_for_a_while_loses_nothing(
    store: Store, dispatch: Dispatch, storage_settings: StorageSettings, start: Callable[[], Worker]
) -> None:
    start()
    batch = submit(store, dispatch, 3000, SLOW)
    eventually(lambda: store.batches.get("default", batch, summary=False).done >= 500)
    spool = storage_settings.data_dir / "spool"
    away = spool.rename(spool.with_name("away"))
    spool.mkdir()
    time.sleep(3)
    assert list(spool.iterdir()) == []
    assert store.batches.get("default", batch, summary=False).state == "running"
    shutil.rmtree(spool)
    away.rename(spool)
    found = over(store, batch)
    assert (found.done, found.scored, found.errors) == (3000, 3000, {})
    assert scores(store, batch) == [float(number) for number in range(3000)]
