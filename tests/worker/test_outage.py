import shutil
import time
from collections.abc import Callable

import pytest

from storage.settings import StorageSettings
from storage.store import Store
from tests.waiting import eventually
from tests.worker.conftest import Worker, over, scores, submit
from worker.dispatch import Dispatch

SLOW = "import time\nasync def grade(thread):\n    time.sleep(0.001)\n    return float(thread.completion())\n"


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
