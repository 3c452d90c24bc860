import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from storage.lost_files import SETTLED_S, is_lost
from storage.store import Store
from tests.storage.making import accept, claim, finish


def test_nothing_is_lost_while_the_spool_is_not_mounted(store: Store) -> None:
    batch = accept(store, 10)
    finish(store, claim(store))
    long_ago = datetime.now(UTC) - timedelta(seconds=SETTLED_S + 1)
    over = store.batches.get("default", batch).model_copy(update={"finished_at": long_ago})
    payload = Path(store.spool._payload(batch))
    shutil.rmtree(payload.parents[1])
    payload.parents[1].mkdir()
    assert not is_lost(over, store.spool)
    store.spool.write_mark("mark")
    assert is_lost(over, store.spool)
