"""Tests of environments, their builds, and the claims of workers."""

import threading
import time
from collections.abc import Callable

import msgspec
import pytest
from redis import Redis

from gradebox.schemas import EnvironmentUse, LockedPackage
from storage import redis_keys
from storage.access.audit import Audit
from storage.access.quotas import Quotas
from storage.batch_plan import Wanted
from storage.connection import seconds
from storage.environments import environment_builds
from storage.environments.environment_archives import KEPT_S
from storage.environments.environment_builds import LEASE_S, TRIES, Claim, EnvironmentBuilds, Made
from storage.environments.environments import Environments
from storage.errors import Conflict, NotFound, QuotaExceeded
from storage.graders.grader_content import Proved
from storage.store import Store
from tests.storage.making import accept, proved

SHA256 = "a" * 64
MADE = Made([LockedPackage(name="sympy", version="1.14", sha256=["b" * 64])], SHA256, "3.12", 1000, 10)


def claimed(builds: EnvironmentBuilds) -> Claim:
    claim = builds.claim()
    assert claim is not None
    return claim


def ready(store: Store, key: str, package: str = "sympy") -> EnvironmentUse:
    store.environments.create("default", key, [package])
    assert store.builds.finish(claimed(store.builds), MADE)
    return store.environments.usable("default", key)[0]


def _proved_in(use: EnvironmentUse) -> Proved:
    return msgspec.structs.replace(proved(), environment=use)


def overdue(redis: Redis, claim: Claim) -> None:
    """Lets the lease of a claim run out."""
    redis.zadd(redis_keys.BUILDS, {claim.member: 1}, xx=True)


def test_a_build_is_made_by_who_claims_it(store: Store) -> None:
    made = store.environments.create("default", "math", ["sympy"])
    assert (made.build, made.state, [build.number for build in made.builds]) == (1, "building", [1])

    claim = claimed(store.builds)
    assert store.builds.claim() is None  # the build is lent
    assert store.builds.renew(claim, "compiling")
    assert store.environments.get("default", "math").builds[0].step == "compiling"
    assert store.builds.finish(claim, MADE)

    environment = store.environments.get("default", "math")
    assert (environment.state, environment.builds[0].sha256, environment.builds[0].step) == ("ready", SHA256, "")
    assert store.environments.usable("default", "math")[0] == EnvironmentUse(key="math", build=1, sha256=SHA256)
    assert store.builds.claim() is None
    assert store.environments.all("default")[0].builds == environment.builds
    with pytest.raises(Conflict):
        store.environments.create("default", "math", ["sympy"])
    for project, key in (("other", "math"), ("default", "physics")):
        with pytest.raises(NotFound):
            store.environments.get(project, key)


def test_the_oldest_is_built_first(store: Store) -> None:
    for project, key in (("other", "zeta"), ("default", "beta"), ("default", "alpha")):
        store.environments.create(project, key, ["sympy"])
    zeta, beta = claimed(store.builds), claimed(store.builds)
    assert (zeta.key, beta.key) == ("zeta", "beta")
    assert store.builds.claim() is None  # a project has one worker at a time
    store.builds.finish(beta, MADE)
    assert claimed(store.builds).key == "alpha"


def test_what_is_built_counts_among_what_the_project_stores(redis: Redis, store: Store) -> None:
    small = EnvironmentBuilds(redis, Quotas(spool_bytes=MADE.size_bytes + 1))
    for key in ("first", "second"):
        store.environments.create("default", key, ["sympy"])
        small.finish(claimed(small), MADE)
    assert store.environments.get("default", "first").state == "ready"
    second = store.environments.get("default", "second")
    assert second.state == "failed"
    assert "GRADEBOX_PROJECT_SPOOL_GB" in (second.builds[-1].reason or "")
    assert int(redis.hget(redis_keys.STORED, "default") or 0) == MADE.size_bytes
    store.environments.delete("default", "first")
    assert int(redis.hget(redis_keys.STORED, "default") or 0) == 0


def test_a_worker_that_died_loses_its_build_to_another(store: Store, redis: Redis) -> None:
    store.environments.create("default", "math", ["sympy"])
    dead = claimed(store.builds)
    assert (redis.zscore(redis_keys.BUILDS, dead.member) or 0) > LEASE_S
    overdue(redis, dead)

    second = claimed(store.builds)

    assert (dead.tries, second.tries) == (1, 2)
    assert not store.builds.renew(dead)
    assert not store.builds.finish(dead, MADE)
    assert store.builds.finish(second, MADE)
    assert not store.builds.fail(second, "too late")
    assert store.environments.get("default", "math").state == "ready"


def test_a_worker_finishes_no_other_build_of_the_same_number(store: Store, redis: Redis) -> None:
    store.environments.create("default", "math", ["sympy"])
    forgotten = claimed(store.builds)
    redis.flushdb()  # it comes back with data of an earlier time
    store.environments.create("default", "math", ["numpy"])
    claim = claimed(store.builds)
    assert claim._replace(packages=["sympy"]) == forgotten
    assert not store.builds.renew(forgotten)
    assert not store.builds.finish(forgotten, MADE)
    assert store.builds.finish(claim, MADE)


def test_a_build_that_ends_every_worker_fails(store: Store, redis: Redis) -> None:
    store.environments.create("default", "math", ["sympy"])
    for _ in range(TRIES):
        overdue(redis, claimed(store.builds))

    assert store.builds.claim() is None
    environment = store.environments.get("default", "math")
    assert environment.state == "failed"
    assert "3 times" in str(environment.builds[0].reason)


def test_a_worker_that_stops_gives_its_build_back_untried(store: Store) -> None:
    store.environments.create("default", "math", ["sympy"])
    for _ in range(TRIES + 2):
        store.builds.give_back(claimed(store.builds))
    assert claimed(store.builds).tries == 1


def test_a_changed_list_is_a_new_build(store: Store) -> None:
    ready(store, "math")
    assert store.environments.update("default", "math", ["sympy"]).build == 1  # the list is unchanged
    assert store.environments.update("default", "math", ["numpy"]).build == 2
    with pytest.raises(Conflict, match="being built"):
        store.environments.update("default", "math", ["scipy"])
    with pytest.raises(Conflict, match="still being built: wait until it is ready, or name math@1"):
        store.environments.usable("default", "math")
    assert store.environments.usable("default", "math", 1)[0].build == 1

    store.builds.fail(claimed(store.builds), "no wheels")
    with pytest.raises(Conflict, match=r"\(no wheels\): update it to try again, or name math@1, which is ready"):
        store.environments.usable("default", "math", 2)
    assert store.environments.update("default", "math", ["numpy"]).build == 3  # a failed build may be tried again


def test_a_build_that_is_not_usable_is_made_anew(store: Store) -> None:
    ready(store, "math")
    assert store.environments.update("default", "math", None, unusable=1).build == 2
    assert store.environments.update("default", "math", ["sympy"], unusable=1).build == 2  # it is being built


def test_where_nothing_is_ready_no_other_build_is_named(store: Store) -> None:
    store.environments.create("default", "math", ["sympy"])
    with pytest.raises(Conflict) as waiting:
        store.environments.usable("default", "math")
    store.builds.fail(claimed(store.builds), "no wheels")
    with pytest.raises(Conflict) as failed:
        store.environments.usable("default", "math")

    assert str(waiting.value) == "environment math@1 is still being built: wait until it is ready"
    assert str(failed.value) == "environment math@1 could not be built (no wheels): update it to try again"
    with pytest.raises(NotFound, match="no build 7, its newest is 1"):
        store.environments.usable("default", "math", 7)
    with pytest.raises(NotFound, match="no environment 'maths' in project 'default': did you mean 'math'"):
        store.environments.usable("default", "maths")


def test_who_waits_is_told_of_each_change(store: Store) -> None:
    told = threading.Event()
    changes: list[Callable[[], object]] = [
        lambda: store.environments.create("default", "math", ["sympy"]),
        lambda: store.builds.renew(claimed(store.builds), "resolving"),
        lambda: store.builds.fail(Claim("default", "math", 1, 1, ["sympy"]), "no wheels"),
        lambda: store.environments.delete("default", "math"),
    ]
    with store.endings.calling("default/math", told.set):
        for change in changes:
            time.sleep(0.2)  # until the listener is ready
            told.clear()
            change()
            assert told.wait(5)


def test_one_that_a_version_names_stays(store: Store) -> None:
    use = ready(store, "math")
    graders = store.graders
    inside, outside = _proved_in(use), proved()
    assert graders.create("default", "solver", "solver", "", inside).environment == use
    assert graders.update("default", "solver", outside).environment is None  # the first version still names it

    with pytest.raises(Conflict, match="solver"):
        store.environments.delete("default", "math")
    assert graders.version("default", "solver", 1).environment == use
    graders.delete("default", "solver")
    store.environments.delete("default", "math")

    with pytest.raises(NotFound, match="deleted meanwhile"):
        graders.create("default", "solver", "solver", "", inside)
    assert store.environments.create("default", "math", ["sympy"]).build == 2  # numbers are not reused
    assert store.environments.create("default", "physics", ["sympy"]).build == 1


def test_a_version_in_another_build_is_another_version(store: Store) -> None:
    first = ready(store, "math")
    store.graders.create("default", "solver", "solver", "", _proved_in(first))
    assert store.graders.update("default", "solver", _proved_in(first)).version == 1
    store.environments.update("default", "math", ["numpy"])
    store.builds.finish(claimed(store.builds), MADE)
    second = store.environments.usable("default", "math")[0]
    assert store.graders.update("default", "solver", _proved_in(second)).version == 2


def test_a_deleted_environment_is_built_by_nobody(store: Store, redis: Redis) -> None:
    store.environments.create("default", "math", ["sympy"])
    claim = claimed(store.builds)
    store.environments.delete("default", "math")
    assert not store.builds.renew(claim)
    assert not store.builds.finish(claim, MADE)
    overdue(redis, claim)
    assert store.builds.claim() is None
    assert redis.zcard(redis_keys.BUILDS) == redis.hlen(redis_keys.BUILD_TRIES) == 0


def test_a_project_has_a_bounded_number(redis: Redis, store: Store) -> None:
    environments = Environments(redis, Audit(redis), Quotas(builds=3, builds_at_once=2))
    for key in ("a", "b"):
        environments.create("default", key, ["sympy"])
    with pytest.raises(QuotaExceeded, match="at once"):
        environments.create("default", "c", ["sympy"])
    assert environments.create("other", "c", ["sympy"]).build == 1  # the bound is per project
    for _ in range(3):
        store.builds.finish(claimed(store.builds), MADE)
    environments.update("default", "a", ["numpy"])
    with pytest.raises(QuotaExceeded, match="GRADEBOX_ENVIRONMENT_BUILDS"):
        environments.create("default", "c", ["sympy"])
    environments.delete("default", "a")
    environments.create("default", "c", ["sympy"])


def test_deleting_does_not_make_room_without_an_end(redis: Redis, store: Store) -> None:
    environments = Environments(redis, Audit(redis), Quotas(builds=3))
    for _ in range(3):
        ready(store, "math")
        environments.delete("default", "math")
    with pytest.raises(QuotaExceeded, match="within a day"):  # their contents are kept for a day
        environments.create("default", "math", ["sympy"])
    redis.zadd(redis_keys.deleted_builds("default"), {"math/1": time.time() - KEPT_S - 1})
    environments.create("default", "math", ["sympy"])


def _in_builds(store: Store, redis: Redis, number: int) -> Environments:
    """An environment `math` with as many builds as the project may have."""
    environments = Environments(redis, Audit(redis), Quotas(builds=number))
    environments.create("default", "math", ["sympy==0"])
    for version in range(1, number):
        store.builds.finish(claimed(store.builds), msgspec.structs.replace(MADE, sha256=f"{version:064}"))
        environments.update("default", "math", [f"sympy=={version}"])
    store.builds.finish(claimed(store.builds), msgspec.structs.replace(MADE, sha256=f"{number:064}"))
    return environments


def _numbers(store: Store) -> list[int]:
    return [build.number for build in store.environments.get("default", "math").builds]


def test_a_full_project_replaces_the_oldest_build_that_no_version_names(redis: Redis, store: Store) -> None:
    environments = _in_builds(store, redis, 4)
    use, _ = store.environments.usable("default", "math", 1)
    store.graders.create("default", "solver", "solver", "", _proved_in(use))
    store.graders.update("default", "solver", proved())  # the first version still names it
    stored = int(redis.hget(redis_keys.STORED, "default") or 0)

    assert environments.update("default", "math", ["sympy==9"]).build == 5
    assert _numbers(store) == [1, 3, 4, 5]
    assert int(redis.hget(redis_keys.STORED, "default") or 0) == stored - MADE.size_bytes
    assert redis.zscore(redis_keys.deleted_builds("default"), "math/2") is not None
    assert redis.zscore(redis_keys.ARCHIVES, f"{2:064}") is not None
    assert f"{1:064}" in store.environments.contents()
    store.builds.fail(claimed(store.builds), "no wheels")
    environments.update("default", "math", ["sympy==10"])
    store.builds.fail(claimed(store.builds), "no wheels")
    assert _numbers(store) == [1, 4, 5, 6]
    environments.update("default", "math", ["sympy==11"])
    assert _numbers(store) == [1, 4, 6, 7]  # a failed one first


def test_a_full_project_whose_builds_are_all_named_says_so(redis: Redis, store: Store) -> None:
    environments = _in_builds(store, redis, 2)
    for number in (1, 2):
        use, _ = store.environments.usable("default", "math", number)
        store.graders.create("default", f"solver-{number}", "solver", "", _proved_in(use))
    with pytest.raises(QuotaExceeded, match="replaces only builds that no version of a grader names"):
        environments.update("default", "math", ["sympy==9"])
    store.graders.delete("default", "solver-1")
    assert environments.update("default", "math", ["sympy==9"]).build == 3
    assert _numbers(store) == [2, 3]


def test_a_build_that_a_version_names_at_the_same_time_is_not_replaced(
    redis: Redis, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments = _in_builds(store, redis, 2)
    use, _ = store.environments.usable("default", "math", 1)
    second, _ = store.environments.usable("default", "math", 2)
    store.graders.create("default", "solver", "solver", "", _proved_in(second))
    check, versions = environments._check, iter([_proved_in(use)])

    def checking(*arguments: object) -> None:
        for proved_in in versions:
            store.graders.update("default", "solver", proved_in)
        check(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(environments, "_check", checking)
    with pytest.raises(QuotaExceeded):
        environments.update("default", "math", ["sympy==9"])
    assert _numbers(store) == [1, 2]


def test_contents_are_named_by_builds_and_by_batches_that_run(store: Store) -> None:
    assert store.environments.contents() == set()
    use = ready(store, "math")
    store.graders.create("default", "solver", "solver", "", _proved_in(use))
    wanted = Wanted("solver", store.graders.version("default", "solver"))
    batch = accept(store, 1, wanted)
    store.graders.delete("default", "solver")
    store.environments.delete("default", "math")
    assert store.environments.contents() == {SHA256}  # the batch still uses it
    store.batches.cancel("default", batch)
    assert store.environments.contents() == set()


def test_versions_of_before_there_were_environments_are_read(store: Store) -> None:
    store.graders.create("default", "old", "old", "", proved())
    kept = store.redis.hget(redis_keys.versions("default", "old"), "1")
    assert isinstance(kept, bytes)
    assert b'"environment":null,' in kept
    store.redis.hset(redis_keys.versions("default", "old"), "1", kept.replace(b'"environment":null,', b""))
    assert store.graders.version("default", "old", 1).environment is None


def test_builds_wait_no_longer_than_a_lease_after_the_clock_was_set_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.environments.create("default", "waits", ["sympy"])
    store.environments.create("another", "died", ["sympy"])
    monkeypatch.setattr(environment_builds, "seconds", lambda redis: seconds(redis) - 3600)
    assert store.builds.claim() is None
    monkeypatch.setattr(environment_builds, "seconds", lambda redis: seconds(redis) - 3600 + LEASE_S)
    assert claimed(store.builds).tries == 1
    assert claimed(store.builds).tries == 1
