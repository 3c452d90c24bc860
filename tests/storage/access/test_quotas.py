import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace
from redis import Redis

from gradebox.schemas import GraderRecord, ModelDefaults, Project
from storage import redis_keys
from storage.access.quotas import Quotas
from storage.batch_plan import Wanted
from storage.errors import QuotaExceeded, StorageError
from storage.queue.backlog import Waiting
from storage.settings import StorageSettings
from storage.spool.spool import Spool
from storage.store import Store, open_store
from tests.storage.making import accept, claim, finish, finish_all, line, proved, wanted


@pytest.fixture
def small(redis: Redis, storage_settings: StorageSettings) -> Store:
    """A store with low quotas."""
    quotas = Quotas(projects=2, graders=3, versions=2, batches=3, spool_bytes=3000, models=1, endpoints=2)
    store = Store(redis, Spool(storage_settings.spool), quotas=quotas)
    store.projects.ensure("default")
    return store


def test_graders_are_bounded(small: Store) -> None:
    for key in ("a", "b", "c"):
        wanted(small, key)
    with pytest.raises(QuotaExceeded, match=r"'default' has 3 graders, .* GRADEBOX_PROJECT_GRADERS"):
        wanted(small, "d")
    small.graders.delete("default", "a")
    wanted(small, "d")


def test_versions_are_bounded(small: Store) -> None:
    wanted(small, "a")
    small.graders.update("default", "a", proved("# 2"))
    with pytest.raises(QuotaExceeded, match=r"'a' has 2 versions, .* GRADEBOX_GRADER_VERSIONS"):
        small.graders.update("default", "a", proved("# 3"))
    assert small.graders.get("default", "a").version == 2
    small.graders.update("default", "a", proved("# 2"))  # not a new version


def test_models_and_endpoints_are_bounded(small: Store) -> None:
    small.models.create("default", "a", "http://a/v1", "m", "", ModelDefaults(), 5)
    with pytest.raises(QuotaExceeded, match=r"'default' has 1 models, .* GRADEBOX_PROJECT_MODELS"):
        small.models.create("default", "b", "http://a/v1", "m", "", ModelDefaults(), 5)
    for key in ("a", "b"):
        small.endpoints.create("default", key, "http://a", "", 5)
    with pytest.raises(QuotaExceeded, match=r"'default' has 2 endpoints, .* GRADEBOX_PROJECT_ENDPOINTS"):
        small.endpoints.create("default", "c", "http://a", "", 5)


def test_batches_are_bounded_those_that_are_over_too(small: Store) -> None:
    exact = wanted(small, "exact")
    first, *_ = [accept(small, 1, exact) for _ in range(3)]
    finish_all(small)
    with pytest.raises(QuotaExceeded, match="GRADEBOX_PROJECT_BATCHES"):
        accept(small, 1, exact)
    accept(small, 1, exact, project="other")
    small.batches.delete("default", first)
    accept(small, 1, exact)


def test_bytes_of_threads_and_outcomes_are_bounded(small: Store) -> None:
    exact = wanted(small, "exact")
    batch = accept(small, 20, exact)
    payload = int(small.redis.hget(redis_keys.STORED, "default") or 0)
    assert payload == sum(len(line(number)) for number in range(20))
    finish(small, claim(small))
    assert int(small.redis.hget(redis_keys.STORED, "default") or 0) > payload + 20 * 30
    with pytest.raises(QuotaExceeded, match="GRADEBOX_PROJECT_SPOOL_GB"):
        accept(small, 60, exact)
    small.batches.delete("default", batch)
    assert not small.redis.exists(redis_keys.STORED)
    accept(small, 60, exact)


def test_numbers_of_deleted_graders_do_not_grow_or_come_twice(small: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.graders.graders._KEPT_NUMBERS", 2)
    seen: set[tuple[str, int]] = set()
    for number in range(40):
        key = f"k{number % 13}"
        for version in range(2):
            if version == 0:
                small.graders.create("default", key, key, "", proved(f"# {number}"))
            else:
                small.graders.update("default", key, proved(f"# {number} again"))
            label = (key, small.graders.get("default", key).version)
            assert label not in seen
            seen.add(label)
        small.graders.delete("default", key)
    assert small.redis.hlen(redis_keys.numbers("default")) <= 7


def test_without_a_setting_a_project_may_have_half_of_the_disk(storage_settings: StorageSettings, redis: Redis) -> None:
    half = Spool(storage_settings.spool).files.half_of_disk()
    assert half is not None and half > 1 << 20
    store = open_store(storage_settings)
    with pytest.raises(QuotaExceeded):
        store.backlog.check("default", size=half + 1)
    store.backlog.check("default", size=half)


def test_the_versions_of_a_project_are_bounded_in_bytes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.graders, "_quotas", Quotas(version_bytes=3000))
    store.graders.create("default", "a", "a", "", proved("# " + "x" * 1000))
    with pytest.raises(QuotaExceeded, match="GRADEBOX_PROJECT_SOURCES_MB"):
        store.graders.update("default", "a", proved("# " + "y" * 2000))
    with pytest.raises(QuotaExceeded, match="delete graders"):
        store.graders.create("default", "b", "b", "", proved("# " + "y" * 2000))
    store.graders.delete("default", "a")
    store.graders.create("default", "b", "b", "", proved("# " + "y" * 2000))


def test_versions_count_as_the_bytes_that_redis_stores(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.graders.create("default", "a", "a", "", proved("# " + "😀" * 1000))
    stored = len(store.redis.hget(redis_keys.versions("default", "a"), "1") or b"")
    assert stored > 4000
    assert store.redis.hget(redis_keys.version_bytes("default"), "a") == b"%d" % stored
    monkeypatch.setattr(store.graders, "_quotas", Quotas(version_bytes=stored + 3000))
    with pytest.raises(QuotaExceeded, match="GRADEBOX_PROJECT_SOURCES_MB"):
        store.graders.create("default", "b", "b", "", proved("# " + "😀" * 1000))


def at_once(work: Callable[[int], object], threads: int) -> list[object]:
    """The result or error of each thread's call. All calls start at the same moment."""
    start = threading.Barrier(threads)

    def call(number: int) -> object:
        start.wait()
        try:
            return work(number)
        except StorageError as error:
            return error

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(call, range(threads)))


def accepting_at_once(store: Store, lines: int, *, rounds: int) -> Counter[str]:
    """Over many rounds: how many of 24 simultaneous batches are accepted, and how many are refused with which error."""
    exact = wanted(store, "exact")
    found: Counter[str] = Counter()
    for _ in range(rounds):
        made = at_once(lambda _: accept(store, lines, exact), 24)
        found.update("accepted" if isinstance(one, str) else type(one).__name__ for one in made)
        assert store.redis.zcard(redis_keys.batches("default")) == sum(isinstance(one, str) for one in made)
        for batch in store.batches.newest("default", 100):
            store.batches.delete("default", batch.id)
        assert not store.redis.exists(
            redis_keys.WAITING, redis_keys.ACTIVE, redis_keys.STORED, redis_keys.TURNS, redis_keys.SOURCES
        )
    return found


PAYLOAD = sum(len(line(number)) for number in range(20))


@pytest.mark.parametrize(
    ("waiting", "quotas", "refused"),
    [
        (Waiting(100, 1000), Quotas(), "QueueFull"),
        (Waiting(10_000, 5), Quotas(), "QueueFull"),
        (Waiting(10_000, 1000), Quotas(batches=5), "QuotaExceeded"),
        (Waiting(10_000, 1000), Quotas(spool_bytes=5 * PAYLOAD), "QuotaExceeded"),
    ],
)
def test_batches_that_come_at_once_do_not_pass_a_bound_together(
    redis: Redis, storage_settings: StorageSettings, waiting: Waiting, quotas: Quotas, refused: str
) -> None:
    store = Store(redis, Spool(storage_settings.spool), waiting, quotas=quotas)
    store.projects.ensure("default")
    assert accepting_at_once(store, 20, rounds=5) == {"accepted": 5 * 5, refused: 5 * 19}


def test_graders_and_versions_that_come_at_once_do_not_pass_a_bound_together(small: Store) -> None:
    made = at_once(lambda number: wanted(small, f"g{number}"), 12)
    assert sum(isinstance(one, Wanted) for one in made) == len(small.graders.all("default")) == 3
    key = small.graders.all("default")[0].key
    updated = at_once(lambda number: small.graders.update("default", key, proved(f"# {number}")), 12)
    assert sum(isinstance(one, GraderRecord) for one in updated) == 1
    assert small.redis.hlen(redis_keys.versions("default", key)) == 2


def test_versions_at_once_do_not_pass_their_bytes_together(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.graders, "_quotas", Quotas(version_bytes=10_000))
    made = at_once(lambda number: store.graders.create("default", f"g{number}", "g", "", proved("#" + "x" * 2000)), 12)
    assert sum(isinstance(one, GraderRecord) for one in made) == 4
    assert sum(int(size) for size in store.redis.hvals(redis_keys.version_bytes("default"))) <= 10_000


def test_threads_at_once_do_not_pass_the_bytes_of_versions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    source = proved()
    for number in range(12):
        store.graders.create("default", f"g{number}", "g", "", source)
    there = sum(int(size) for size in store.redis.hvals(redis_keys.version_bytes("default")))
    monkeypatch.setattr(store.graders, "_quotas", Quotas(version_bytes=there + 10_000))
    noise = [random.Random(number).randbytes(1500).hex().encode() for number in range(12)]

    def update(number: int) -> object:
        return store.graders.update("default", f"g{number}", replace(source, threads=[noise[number]]))

    made = at_once(update, 12)
    assert 0 < sum(isinstance(one, GraderRecord) for one in made) < 12
    assert sum(int(size) for size in store.redis.hvals(redis_keys.version_bytes("default"))) <= there + 10_000


def test_projects_that_come_at_once_do_not_pass_their_bound_together(small: Store) -> None:
    made = at_once(lambda number: small.projects.create(f"p{number}"), 12)
    assert sum(isinstance(one, Project) for one in made) == 1
    assert all("GRADEBOX_PROJECTS" in str(one) for one in made if not isinstance(one, Project))
    assert len(small.projects.covered(["*"])) == 2
