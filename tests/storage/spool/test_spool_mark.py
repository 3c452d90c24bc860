import errno
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest

from storage.settings import StorageSettings
from storage.spool import spool_mark
from storage.spool.spool import Spool
from storage.store import Store, open_store
from tests.storage.making import accept


@pytest.fixture
def folder(storage_settings: StorageSettings) -> Path:
    return storage_settings.data_dir / "spool"


def test_an_empty_spool_is_marked_once(store: Store, spool: Spool) -> None:
    mark = spool_mark.match(store.redis, spool)
    assert spool.mark() == mark
    spool.check()
    assert spool_mark.match(store.redis, spool) == mark


def test_without_its_mark_a_spool_is_not_usable_until_the_mark_is_written(store: Store, spool: Spool) -> None:
    mark = spool_mark.match(store.redis, spool)
    spool.files.system.rm_file(spool._owner)
    spool_mark.match(store.redis, spool)  # another process starts
    with pytest.raises(OSError, match=f"may not be mounted: mount it, or, .* write {mark} into that file"):
        spool.check()
    assert spool.trouble() is not None
    spool.check_usable()  # the process starts nevertheless, because somebody may mount it
    spool.files.system.pipe_file(spool._owner, f"{mark}\n".encode())
    spool.check()
    assert spool.mark() == mark


def test_nothing_is_written_where_the_spool_is_not_mounted(storage_settings: StorageSettings, folder: Path) -> None:
    store = open_store(storage_settings)
    store.projects.ensure("default")
    folder.rename(folder.with_name("elsewhere"))
    folder.mkdir()
    later = open_store(storage_settings)
    for each in (store.spool, later.spool):
        _refuses(each.writing_payload("0" * 20).__enter__)
        _refuses(partial(each.write_outcomes, "0" * 20, {(0, 1): b"{}"}))
        _refuses(each.writing_data("0" * 20).__enter__)
        _refuses(partial(each.write_archive, "0" * 64, BytesIO()))
        _refuses(partial(each.open_archive, "0" * 64))  # which is not lost
    assert list(folder.iterdir()) == []
    folder.rmdir()
    folder.with_name("elsewhere").rename(folder)
    accept(store, 1)


def _refuses(write: Callable[[], object]) -> None:
    with pytest.raises(OSError) as caught:
        write()
    assert caught.value.errno == errno.ENODEV


def test_a_spool_that_was_away_at_first_is_marked_by_the_next(storage_settings: StorageSettings, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("no folder")
    open_store(storage_settings)
    folder.unlink()
    store = open_store(storage_settings)
    assert store.spool.mark() == spool_mark.match(store.redis, store.spool)


def test_the_spool_of_another_redis_keeps_its_mark_and_is_written(store: Store, spool: Spool) -> None:
    spool.write_mark("of another")
    assert spool_mark.match(store.redis, spool) != "of another"
    assert spool.mark() == "of another"
    spool.check()
