"""Tests of data of environments in the spool: the owner, the time that it is kept, and the removal."""

import time
from typing import Any

import msgspec
import pytest
from redis import Redis

from storage import redis_keys
from storage.access.audit import Audit
from storage.access.quotas import Quotas
from storage.environments import environment_data, environment_records
from storage.environments.environment_data import KEPT_S, EnvironmentDataStore
from storage.environments.environments import Environments
from storage.errors import NotFound, QuotaExceeded, Refused
from storage.janitor import Janitor
from storage.store import Store
from storage.uploads import DataUpload
from tests.storage.environments.test_environments import MADE, claimed


def send(store: Store, content: bytes, project: str = "default") -> str:
    """Sends data and returns its SHA-256."""
    upload = DataUpload(store, project)
    upload.write(content[:1], content[1:])
    upload.close()
    store.environment_data.keep(project, upload.sha256, upload.id, upload.size)
    return upload.sha256


def age(store: Store, seconds: float, project: str = "default") -> None:
    """Makes all data of a project so many seconds old."""
    for sha256, value in store.redis.hgetall(redis_keys.environment_data(project)).items():
        kept = msgspec.json.decode(value, type=environment_data.Kept)
        older = msgspec.structs.replace(kept, sent_at=time.time() - seconds)
        store.redis.hset(redis_keys.environment_data(project), sha256, msgspec.json.encode(older))


def look(store: Store) -> None:
    """Runs two rounds of the janitor: the second removes what the first releases."""
    store.redis.delete(redis_keys.ARCHIVES_LOOK)
    assert Janitor(store, None).look()
    assert Janitor(store, None).look()


def test_it_is_kept_once_and_read(store: Store) -> None:
    sha256 = send(store, b"some data")
    assert send(store, b"some data") == sha256
    look(store)  # removes the second copy
    assert store.spool.batches() == store.environment_data.ids()
    assert len(store.spool.batches()) == 1
    with store.environment_data.open("default", sha256) as file:
        assert file.read() == b"some data"
    assert store.redis.zcard(redis_keys.UPLOADS) == 0


def test_what_the_spool_has_lost_comes_again(store: Store) -> None:
    sha256 = send(store, b"some data")
    (lost,) = store.environment_data.ids()
    store.spool.remove(lost)
    with pytest.raises(FileNotFoundError):
        store.environment_data.open("default", sha256)
    send(store, b"some data")
    with store.environment_data.open("default", sha256) as file:
        assert file.read() == b"some data"
    assert store.redis.hget(redis_keys.STORED, "default") == b"9"  # bytes of the project: the lost ones count no more


def test_a_project_names_its_own_alone(store: Store) -> None:
    sha256 = send(store, b"some data")
    with pytest.raises(NotFound):
        store.environment_data.open("other", sha256)
    with pytest.raises(NotFound, match="upload it first"):
        store.environments.create("other", "words", [], sha256)
    assert store.environments.create("default", "words", [], sha256).builds[0].data == sha256


def test_what_no_build_names_goes_after_a_day(store: Store) -> None:
    named, unnamed = send(store, b"named"), send(store, b"unnamed")
    store.environments.create("default", "words", [], named)
    look(store)
    assert len(store.spool.batches()) == 2
    again = send(store, b"again")
    age(store, KEPT_S + 1)
    young = send(store, b"young")
    assert send(store, b"again") == again  # stays another day
    look(store)
    for sha256 in (named, young, again):
        store.environment_data.open("default", sha256).close()
    with pytest.raises(NotFound):
        store.environment_data.open("default", unnamed)
    assert len(store.spool.batches()) == 3
    store.environments.delete("default", "words")
    age(store, KEPT_S + 1)
    look(store)
    assert store.spool.batches() == set()


def test_a_build_that_is_made_as_it_is_swept_is_refused_or_has_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha256 = send(store, b"data")
    age(store, KEPT_S + 1)
    read = environment_records.read_builds_of_all

    def then_named(redis: Redis, project: str) -> object:
        found = read(redis, project)
        monkeypatch.undo()
        store.environments.create("default", "words", [], sha256)
        return found

    monkeypatch.setattr(environment_records, "read_builds_of_all", then_named)
    assert store.environment_data.sweep() == []
    store.environment_data.open("default", sha256).close()


def test_nothing_is_left_of_an_upload_that_broke_off(store: Store) -> None:
    upload = DataUpload(store, "default")
    upload.write(b"half")
    upload.abandon()
    assert store.spool.batches() == set()

    DataUpload(store, "default").write(b"killed")
    killed: Any = store.redis.zrange(redis_keys.UPLOADS, 0, -1)
    store.redis.zadd(redis_keys.UPLOADS, dict.fromkeys(killed, 1))
    look(store)
    assert store.spool.batches() == set()


def test_files_that_redis_has_lost_are_removed_and_others_stay(store: Store) -> None:
    send(store, b"data")
    old = f"{int(time.time() - 2 * 24 * 3600):08x}".ljust(20, "0")
    with store.spool.writing_data(old) as file:
        file.write(b"of nothing")
    (kept,) = store.environment_data.ids()
    assert store.spool.batches() == {old, kept}
    store.redis.hset(
        redis_keys.environment_data("other"), "0" * 64, msgspec.json.encode(environment_data.Kept(old, time.time()))
    )
    store.redis.delete(redis_keys.ORPHANS)
    look(store)
    assert store.spool.batches() == {old, kept}
    store.redis.delete(redis_keys.environment_data("other"), redis_keys.ORPHANS)
    look(store)
    assert store.spool.batches() == {kept}


def test_a_project_has_a_bounded_number(store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    few = EnvironmentDataStore(redis, store.spool, Quotas(builds=2))
    monkeypatch.setattr(store, "environment_data", few)
    upload = DataUpload(store, "default")  # begins before the quota is full
    upload.write(b"late")
    upload.close()
    first = send(store, b"1")
    send(store, b"2")
    with pytest.raises(QuotaExceeded, match="wait a day"):
        send(store, b"3")
    with pytest.raises(QuotaExceeded):
        few.keep("default", upload.sha256, upload.id, upload.size)
    few.keep("default", first, upload.id, upload.size)  # existing data may be sent again
    send(store, b"3", "other")


def test_builds_have_the_packages_or_the_data_that_are_named(store: Store, redis: Redis) -> None:
    environments = Environments(redis, Audit(redis), Quotas())
    first, second = send(store, b"1"), send(store, b"2")
    with pytest.raises(Refused, match="nothing to build"):
        environments.create("default", "words", [])
    environments.create("default", "words", ["nltk"], first)
    expected: Any = (
        ((["nltk"], None), 1, (["nltk"], first)),
        ((None, None), 1, (["nltk"], first)),
        ((["sympy"], None), 2, (["sympy"], first)),
        ((None, second), 3, (["sympy"], second)),
        (([], None), 4, ([], second)),
        ((["nltk"], ""), 5, (["nltk"], "")),
    )
    for asked, number, found in expected:
        if claim := store.builds.claim():
            store.builds.finish(claim, MADE)
        environment = environments.update("default", "words", *asked)
        build = environment.builds[0]
        assert (environment.build, (build.packages, build.data)) == (number, found)
    assert (claimed(store.builds).data, store.environments.newest("default", "words").data) == ("", "")
    with pytest.raises(NotFound):
        environments.create("default", "others", [], "0" * 64)
