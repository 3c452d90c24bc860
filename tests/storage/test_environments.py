"""Tests of environments, their builds, and the claims of workers."""

import threading
import time
from collections.abc import Callable

import msgspec
import pytest
from redis import Redis

from gradebox.schemas import EnvironmentPackage, EnvironmentUse
from storage import redis_keys
from storage.archives import KEPT_S
from storage.audit import Audit
from storage.batch_plan import Wanted
from storage.environment_builds import LEASE_S, TRIES, Claim, EnvironmentBuilds, Made
from storage.environments import Environments
from storage.errors import Conflict, NotFound, QuotaExceeded
from storage.grader_content import Proved
from storage.quotas import Quotas
from storage.store import Store
from tests.storage.making import accept, proved

SHA256 = "a" * 64
MADE = Made([EnvironmentPackage(name="sympy", version="1.14", sha256=["b" * 64])], SHA256, "3.12", 1000, 10)


@pytest.fixture
def environments(store: Store) -> Environments:
    return store.environments


@pytest.fixture
def builds(store: Store) -> EnvironmentBuilds:
    return store.builds


def claimed(builds: EnvironmentBuilds) -> Claim:
    claim = builds.claim()
    assert claim is not None
    return claim


def ready(
    environments: Environments, builds: EnvironmentBuilds, key: str, requirements: str = "sympy"
) -> EnvironmentUse:
    environments.create("default", key, [requirements])
    assert builds.finish(claimed(builds), MADE)
    return environments.usable("default", key)[0]


def _proved_in(use: EnvironmentUse) -> Proved:
    return msgspec.structs.replace(proved(), environment=use)


def overdue(redis: Redis, claim: Claim) -> None:
    """Lets the lease of a claim run out."""
    redis.zadd(redis_keys.BUILDS, {claim.member: 1}, xx=True)


def test_a_build_is_made_by_who_claims_it(environments: Environments, builds: EnvironmentBuilds) -> None:
    made = environments.create("default", "math", ["sympy"])
    assert (made.build, made.state, [build.number for build in made.builds]) == (1, "building", [1])

    claim = claimed(builds)
    assert builds.claim() is None  # the build is lent
    assert builds.renew(claim, "compiling")
    assert environments.get("default", "math").builds[0].step == "compiling"
    assert builds.finish(claim, MADE)

    environment = environments.get("default", "math")
    assert (environment.state, environment.builds[0].sha256, environment.builds[0].step) == ("ready", SHA256, "")
    assert environments.usable("default", "math")[0] == EnvironmentUse(key="math", build=1, sha256=SHA256)
    assert builds.claim() is None
    assert environments.all("default")[0].builds == environment.builds


def test_the_oldest_is_built_first(environments: Environments, builds: EnvironmentBuilds) -> None:
    for project, key in (("other", "zeta"), ("default", "beta"), ("default", "alpha")):
        environments.create(project, key, ["sympy"])
    zeta, beta = claimed(builds), claimed(builds)
    assert (zeta.key, beta.key) == ("zeta", "beta")
    assert builds.claim() is None  # a project has one worker at a time
    builds.finish(beta, MADE)
    assert claimed(builds).key == "alpha"


def test_what_is_built_counts_among_what_the_project_stores(
    environments: Environments, redis: Redis, store: Store
) -> None:
    small = EnvironmentBuilds(redis, Quotas(spool_bytes=MADE.size_bytes + 1))
    for key in ("first", "second"):
        environments.create("default", key, ["sympy"])
        small.finish(claimed(small), MADE)
    assert environments.get("default", "first").state == "ready"
    second = environments.get("default", "second")
    assert second.state == "failed"
    assert "GRADEBOX_PROJECT_SPOOL_GB" in (second.builds[-1].reason or "")
    assert int(redis.hget(redis_keys.STORED, "default") or 0) == MADE.size_bytes
    environments.delete("default", "first")
    assert int(redis.hget(redis_keys.STORED, "default") or 0) == 0


def test_a_worker_that_died_loses_its_build_to_another(
    environments: Environments, redis: Redis, builds: EnvironmentBuilds
) -> None:
    environments.create("default", "math", ["sympy"])
    dead = claimed(builds)
    assert (redis.zscore(redis_keys.BUILDS, dead.member) or 0) > LEASE_S
    overdue(redis, dead)

    second = claimed(builds)

    assert (dead.tries, second.tries) == (1, 2)
    assert not builds.renew(dead)
    assert not builds.finish(dead, MADE)
    assert builds.finish(second, MADE)
    assert not builds.fail(second, "too late")
    assert environments.get("default", "math").state == "ready"


def test_a_build_that_ends_every_worker_fails(
    environments: Environments, redis: Redis, builds: EnvironmentBuilds
) -> None:
    environments.create("default", "math", ["sympy"])
    for _ in range(TRIES):
        overdue(redis, claimed(builds))

    assert builds.claim() is None
    environment = environments.get("default", "math")
    assert environment.state == "failed"
    assert "3 times" in str(environment.builds[0].reason)


def test_a_worker_that_stops_gives_its_build_back_untried(
    environments: Environments, builds: EnvironmentBuilds
) -> None:
    environments.create("default", "math", ["sympy"])
    for _ in range(TRIES + 2):
        builds.give_back(claimed(builds))
    assert claimed(builds).tries == 1


def test_a_changed_list_is_a_new_build(environments: Environments, builds: EnvironmentBuilds) -> None:
    ready(environments, builds, "math")
    assert environments.update("default", "math", ["sympy"]).build == 1  # the list is unchanged
    assert environments.update("default", "math", ["numpy"]).build == 2
    with pytest.raises(Conflict, match="being built"):
        environments.update("default", "math", ["scipy"])
    with pytest.raises(Conflict, match="still being built: wait until it is ready, or name math@1"):
        environments.usable("default", "math")
    assert environments.usable("default", "math", 1)[0].build == 1

    builds.fail(claimed(builds), "no wheels")
    with pytest.raises(Conflict, match=r"\(no wheels\): update it to try again, or name math@1, which is ready"):
        environments.usable("default", "math", 2)
    assert environments.update("default", "math", ["numpy"]).build == 3  # a failed build may be tried again


def test_where_nothing_is_ready_no_other_build_is_named(environments: Environments, builds: EnvironmentBuilds) -> None:
    environments.create("default", "math", ["sympy"])
    with pytest.raises(Conflict) as waiting:
        environments.usable("default", "math")
    builds.fail(claimed(builds), "no wheels")
    with pytest.raises(Conflict) as failed:
        environments.usable("default", "math")

    assert str(waiting.value) == "environment math@1 is still being built: wait until it is ready"
    assert str(failed.value) == "environment math@1 could not be built (no wheels): update it to try again"
    with pytest.raises(NotFound, match="no build 7, its newest is 1"):
        environments.usable("default", "math", 7)


def test_who_waits_is_told_of_each_change(environments: Environments, builds: EnvironmentBuilds, store: Store) -> None:
    told = threading.Event()
    changes: list[Callable[[], object]] = [
        lambda: environments.create("default", "math", ["sympy"]),
        lambda: builds.renew(claimed(builds), "resolving"),
        lambda: builds.fail(Claim("default", "math", 1, 1, []), "no wheels"),
        lambda: environments.delete("default", "math"),
    ]
    with store.endings.calling("default/math", told.set):
        for change in changes:
            time.sleep(0.2)  # until the listener is ready
            told.clear()
            change()
            assert told.wait(5)


def test_what_is_not_there(environments: Environments, builds: EnvironmentBuilds) -> None:
    ready(environments, builds, "math")
    with pytest.raises(Conflict):
        environments.create("default", "math", ["sympy"])
    for missing in ("other", "default"):
        with pytest.raises(NotFound):
            environments.get(missing, "physics")
    with pytest.raises(NotFound):
        environments.usable("default", "math", 9)
    with pytest.raises(NotFound):
        environments.get("other", "math")


def test_one_that_a_version_names_stays(environments: Environments, store: Store, builds: EnvironmentBuilds) -> None:
    use = ready(environments, builds, "math")
    graders = store.graders
    inside, outside = _proved_in(use), proved()
    assert graders.create("default", "solver", "solver", "", inside).environment == use
    assert graders.update("default", "solver", outside).environment is None  # the first version still names it

    with pytest.raises(Conflict, match="solver"):
        environments.delete("default", "math")
    assert graders.version("default", "solver", 1).environment == use
    graders.delete("default", "solver")
    environments.delete("default", "math")

    with pytest.raises(NotFound, match="deleted meanwhile"):
        graders.create("default", "solver", "solver", "", inside)
    assert environments.create("default", "math", ["sympy"]).build == 2  # numbers are not reused
    assert environments.create("default", "physics", ["sympy"]).build == 1


def test_a_version_in_another_build_is_another_version(
    environments: Environments, store: Store, builds: EnvironmentBuilds
) -> None:
    first = ready(environments, builds, "math")
    store.graders.create("default", "solver", "solver", "", _proved_in(first))
    assert store.graders.update("default", "solver", _proved_in(first)).version == 1
    environments.update("default", "math", ["numpy"])
    builds.finish(claimed(builds), MADE)
    assert store.graders.update("default", "solver", _proved_in(environments.usable("default", "math")[0])).version == 2


def test_a_deleted_environment_is_built_by_nobody(
    environments: Environments, redis: Redis, builds: EnvironmentBuilds
) -> None:
    environments.create("default", "math", ["sympy"])
    claim = claimed(builds)
    environments.delete("default", "math")
    assert not builds.renew(claim)
    assert not builds.finish(claim, MADE)
    overdue(redis, claim)
    assert builds.claim() is None
    assert redis.zcard(redis_keys.BUILDS) == redis.hlen(redis_keys.BUILD_TRIES) == 0


def test_a_project_has_a_bounded_number(redis: Redis, store: Store, builds: EnvironmentBuilds) -> None:
    environments = Environments(redis, Audit(redis), Quotas(builds=3, builds_at_once=2))
    for key in ("a", "b"):
        environments.create("default", key, ["sympy"])
    with pytest.raises(QuotaExceeded, match="at once"):
        environments.create("default", "c", ["sympy"])
    assert environments.create("other", "c", ["sympy"]).build == 1  # the bound is per project
    for _ in range(3):
        builds.finish(claimed(builds), MADE)
    environments.update("default", "a", ["numpy"])
    with pytest.raises(QuotaExceeded, match="GRADEBOX_ENVIRONMENT_BUILDS"):
        environments.create("default", "c", ["sympy"])
    environments.delete("default", "a")
    environments.create("default", "c", ["sympy"])


def test_deleting_does_not_make_room_without_an_end(redis: Redis, store: Store, builds: EnvironmentBuilds) -> None:
    environments = Environments(redis, Audit(redis), Quotas(builds=3))
    for _ in range(3):
        ready(environments, builds, "math")
        environments.delete("default", "math")
    with pytest.raises(QuotaExceeded, match="within a day"):  # their contents are kept for a day
        environments.create("default", "math", ["sympy"])
    redis.zadd(redis_keys.deleted_builds("default"), {"math/1": time.time() - KEPT_S - 1})
    environments.create("default", "math", ["sympy"])


def test_contents_are_named_by_builds_and_by_batches_that_run(
    environments: Environments, store: Store, builds: EnvironmentBuilds
) -> None:
    assert environments.contents() == set()
    use = ready(environments, builds, "math")
    store.graders.create("default", "solver", "solver", "", _proved_in(use))
    wanted = Wanted("solver", store.graders.version("default", "solver"))
    batch = accept(store, 1, wanted)
    store.graders.delete("default", "solver")
    environments.delete("default", "math")
    assert environments.contents() == {SHA256}  # the batch still uses it
    store.batches.cancel("default", batch)
    assert environments.contents() == set()


def test_versions_of_before_there_were_environments_are_read(store: Store) -> None:
    store.graders.create("default", "old", "old", "", proved())
    kept = store.redis.hget(redis_keys.versions("default", "old"), "1")
    assert isinstance(kept, bytes)
    assert b'"environment":null,' in kept
    store.redis.hset(redis_keys.versions("default", "old"), "1", kept.replace(b'"environment":null,', b""))
    assert store.graders.version("default", "old", 1).environment is None
