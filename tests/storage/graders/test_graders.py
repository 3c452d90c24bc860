from concurrent.futures import ThreadPoolExecutor
from random import Random
from time import thread_time

import pytest

from gradebox.schemas import GraderRecord
from storage import redis_keys
from storage.errors import MOST_COMPARED, Conflict, NotFound, VersionChanged
from storage.store import Store
from tests.storage.making import SOURCE, proved


def create(store: Store, key: str = "exact", source: str = SOURCE) -> GraderRecord:
    return store.graders.create("default", key, "Exact match", "1 where equal", proved(source))


def test_graders_are_listed_by_key_and_by_project(store: Store) -> None:
    create(store, "b")
    create(store, "a")
    store.graders.create("other", "c", "c", "", proved())
    assert [grader.key for grader in store.graders.all("default")] == ["a", "b"]


def test_of_many_at_once_one_wins(store: Store) -> None:
    def attempt(number: int) -> bool:
        try:
            create(store, source=f"# {number}\n{SOURCE}")
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(attempt, range(16)))
    assert won.count(True) == 1
    assert [version.source for version in store.graders.versions("default", "exact")[0]] == [
        f"# {won.index(True)}\n{SOURCE}"
    ]


def test_updates_at_once_make_a_version_each(store: Store) -> None:
    create(store)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: store.graders.update("default", "exact", proved(f"# {n}\n{SOURCE}")), range(8)))
    assert [version.number for version in store.graders.versions("default", "exact")[0]] == list(range(1, 10))
    assert store.graders.get("default", "exact").version == 9


def test_of_two_versions_that_follow_the_same_one_is_kept(store: Store) -> None:
    create(store)

    def update(number: int) -> int | None:
        try:
            return store.graders.update("default", "exact", proved(f"# {number}\n{SOURCE}"), expected=1).version
        except VersionChanged:
            return None

    with ThreadPoolExecutor(8) as threads:
        made = [version for version in threads.map(update, range(8)) if version is not None]
    assert made == [2]


def test_many_graders_come_in_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.graders.graders.PAGE_BYTES", 1)
    monkeypatch.setattr("storage.graders.graders._AT_ONCE", 2)
    for key in "abc":
        store.graders.create("default", key, key, "", proved(f"# {key}"))
    first, has_more = store.graders.page("default")
    assert ([grader.key for grader in first], has_more) == (["a", "b"], True)
    rest, has_more = store.graders.page("default", "b")
    assert ([grader.key for grader in rest], has_more) == (["c"], False)


def test_a_key_that_no_grader_has_is_told_with_a_similar_one(store: Store) -> None:
    create(store, "exact-match")
    with pytest.raises(NotFound, match="no grader 'exat-match' in project 'default': did you mean 'exact-match'"):
        store.graders.get("default", "exat-match")
    with pytest.raises(NotFound, match="no grader 'judge' in project 'default': list the graders"):
        store.graders.get("default", "judge")
    letters = Random(0)
    alike = ("".join(letters.choices("ab", k=64)) for _ in range(MOST_COMPARED - 1))
    store.redis.sadd(redis_keys.graders("default"), *alike)
    began = thread_time()
    with pytest.raises(NotFound):
        store.graders.get("default", "ab" * 45)
    assert thread_time() - began < 0.2  # of a processor, for a key that may only read
    store.redis.sadd(redis_keys.graders("default"), *(f"exact-match-{number}" for number in range(2000)))
    before = store.redis.info("stats")["total_net_output_bytes"]
    with pytest.raises(NotFound, match="list the graders"):
        store.graders.get("default", "exat-match")
    assert store.redis.info("stats")["total_net_output_bytes"] - before < 20_000  # most of it is INFO
