import pytest
from redis import Redis

from storage.errors import QueueFull, TooLarge
from storage.janitor import Janitor
from storage.queue.backlog import Backlog, Waiting
from storage.settings import StorageSettings
from storage.spool.spool import Spool
from storage.store import Store
from tests.storage.making import accept, claim, finish, wanted


@pytest.fixture
def small(redis: Redis, storage_settings: StorageSettings) -> Store:
    """A store in which a project may have 3,000 completions waiting, in two batches."""
    return Store(redis, Spool(storage_settings.spool), Waiting(3000, 2))


def test_what_does_not_fit_is_refused_until_some_is_done(small: Store) -> None:
    exact = wanted(small, "exact")
    accept(small, 2000, exact)
    with pytest.raises(QueueFull, match="'default' has 2000 completions in 1 batches waiting"):
        accept(small, 1001, exact)
    accept(small, 3000, exact, project="other")
    finish(small, claim(small))
    accept(small, 2000, exact)
    with pytest.raises(QueueFull):
        small.backlog.check("default")


def test_nothing_of_a_refused_batch_stays(small: Store, storage_settings: StorageSettings) -> None:
    with pytest.raises(TooLarge, match="GRADEBOX_WAITING_COMPLETIONS"):
        accept(small, 1501, wanted(small, "a"), wanted(small, "b"))
    assert small.orphan_files.due()
    Janitor(small, None).look()
    assert not list((storage_settings.data_dir / "spool" / "payloads").iterdir())


def test_the_default_takes_the_largest_batch(redis: Redis) -> None:
    Backlog(redis).check("default", 16 * 1_000_000)
