"""Environments, their builds, and who makes them."""

import time

import msgspec
import pytest
from redis import Redis

from gradebox.schemas import EnvironmentPackage, EnvironmentUse
from storage import names
from storage.archives import KEPT_S
from storage.audit import Audit
from storage.batch_plan import Wanted
from storage.environments import LEASE_S, TRIES, Claim, Environments, Made
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


def claimed(environments: Environments) -> Claim:
    claim = environments.claim()
    assert claim is not None
    return claim


def ready(environments: Environments, key: str, requirements: str = "sympy") -> EnvironmentUse:
    environments.create("default", key, [requirements])
    assert environments.finish(claimed(environments), MADE)
    return environments.usable("default", key)[0]


def _proved_in(use: EnvironmentUse) -> Proved:
    return msgspec.structs.replace(proved(), environment=use)


def overdue(redis: Redis, claim: Claim) -> None:
    """Has a claim's lease run out."""
    redis.zadd(names.BUILDS, {claim.member: 1}, xx=True)


def test_a_build_is_made_by_who_claims_it(environments: Environments) -> None:
    made = environments.create("default", "math", ["sympy"])
    assert (made.build, made.state, [build.number for build in made.builds]) == (1, "building", [1])

    claim = claimed(environments)
    assert environments.claim() is None  # it is lent
    assert environments.renew(claim, "compiling")
    assert environments.get("default", "math").builds[0].step == "compiling"
    assert environments.finish(claim, MADE)

    environment = environments.get("default", "math")
    assert (environment.state, environment.builds[0].sha256, environment.builds[0].step) == ("ready", SHA256, "")
    assert environments.usable("default", "math")[0] == EnvironmentUse(key="math", build=1, sha256=SHA256)
    assert environments.claim() is None
    assert environments.all("default")[0].builds == environment.builds


def test_the_oldest_is_built_first(environments: Environments) -> None:
    for project, key in (("other", "zeta"), ("default", "beta"), ("default", "alpha")):
        environments.create(project, key, ["sympy"])
    assert [claimed(environments).key for _ in range(3)] == ["zeta", "beta", "alpha"]


def test_a_worker_that_died_loses_its_build_to_another(environments: Environments, redis: Redis) -> None:
    environments.create("default", "math", ["sympy"])
    dead = claimed(environments)
    assert (redis.zscore(names.BUILDS, dead.member) or 0) > LEASE_S
    overdue(redis, dead)

    second = claimed(environments)

    assert (dead.tries, second.tries) == (1, 2)
    assert not environments.renew(dead)
    assert not environments.finish(dead, MADE)
    assert environments.finish(second, MADE)
    assert not environments.fail(second, "too late")
    assert environments.get("default", "math").state == "ready"


def test_a_build_that_ends_every_worker_fails(environments: Environments, redis: Redis) -> None:
    environments.create("default", "math", ["sympy"])
    for _ in range(TRIES):
        overdue(redis, claimed(environments))

    assert environments.claim() is None
    environment = environments.get("default", "math")
    assert environment.state == "failed"
    assert "3 times" in str(environment.builds[0].reason)


def test_a_worker_that_stops_gives_its_build_back_untried(environments: Environments) -> None:
    environments.create("default", "math", ["sympy"])
    for _ in range(TRIES + 2):
        environments.give_back(claimed(environments))
    assert claimed(environments).tries == 1


def test_a_changed_list_is_a_new_build(environments: Environments) -> None:
    ready(environments, "math")
    assert environments.update("default", "math", ["sympy"]).build == 1  # it is the same
    assert environments.update("default", "math", ["numpy"]).build == 2
    with pytest.raises(Conflict, match="being built"):
        environments.update("default", "math", ["scipy"])
    with pytest.raises(Conflict, match="still being built"):
        environments.usable("default", "math")
    assert environments.usable("default", "math", 1)[0].build == 1

    environments.fail(claimed(environments), "no wheels")
    with pytest.raises(Conflict, match="no wheels"):
        environments.usable("default", "math", 2)
    assert environments.update("default", "math", ["numpy"]).build == 3  # what failed may be tried again


def test_what_is_not_there(environments: Environments) -> None:
    ready(environments, "math")
    with pytest.raises(Conflict):
        environments.create("default", "math", ["sympy"])
    for missing in ("other", "default"):
        with pytest.raises(NotFound):
            environments.get(missing, "physics")
    with pytest.raises(NotFound):
        environments.usable("default", "math", 9)
    with pytest.raises(NotFound):
        environments.get("other", "math")


def test_one_that_a_version_names_stays(environments: Environments, store: Store) -> None:
    use = ready(environments, "math")
    graders = store.graders
    inside, outside = _proved_in(use), proved()
    assert graders.create("default", "solver", "solver", "", inside).environment == use
    assert graders.update("default", "solver", outside).environment is None  # the first version names it yet

    with pytest.raises(Conflict, match="solver"):
        environments.delete("default", "math")
    assert graders.version("default", "solver", 1).environment == use
    graders.delete("default", "solver")
    environments.delete("default", "math")

    with pytest.raises(NotFound, match="deleted meanwhile"):
        graders.create("default", "solver", "solver", "", inside)
    assert environments.create("default", "math", ["sympy"]).build == 2  # its number never comes twice
    assert environments.create("default", "physics", ["sympy"]).build == 1


def test_a_version_in_another_build_is_another_version(environments: Environments, store: Store) -> None:
    first = ready(environments, "math")
    store.graders.create("default", "solver", "solver", "", _proved_in(first))
    assert store.graders.update("default", "solver", _proved_in(first)).version == 1
    environments.update("default", "math", ["numpy"])
    environments.finish(claimed(environments), MADE)
    assert store.graders.update("default", "solver", _proved_in(environments.usable("default", "math")[0])).version == 2


def test_a_deleted_environment_is_built_by_nobody(environments: Environments, redis: Redis) -> None:
    environments.create("default", "math", ["sympy"])
    claim = claimed(environments)
    environments.delete("default", "math")
    assert not environments.renew(claim)
    assert not environments.finish(claim, MADE)
    overdue(redis, claim)
    assert environments.claim() is None
    assert redis.zcard(names.BUILDS) == redis.hlen(names.BUILD_TRIES) == 0


def test_a_project_has_a_bounded_number(redis: Redis, store: Store) -> None:
    environments = Environments(redis, Audit(redis), Quotas(builds=3, builds_at_once=2))
    for key in ("a", "b"):
        environments.create("default", key, ["sympy"])
    with pytest.raises(QuotaExceeded, match="at once"):
        environments.create("default", "c", ["sympy"])
    assert environments.create("other", "c", ["sympy"]).build == 1  # its own bound
    for _ in range(3):
        environments.finish(claimed(environments), MADE)
    environments.update("default", "a", ["numpy"])
    with pytest.raises(QuotaExceeded, match="GRADEBOX_ENVIRONMENT_BUILDS"):
        environments.create("default", "c", ["sympy"])
    environments.delete("default", "a")
    environments.create("default", "c", ["sympy"])


def test_deleting_does_not_make_room_without_an_end(redis: Redis, store: Store) -> None:
    environments = Environments(redis, Audit(redis), Quotas(builds=3))
    for _ in range(3):
        ready(environments, "math")
        environments.delete("default", "math")
    with pytest.raises(QuotaExceeded, match="within a day"):  # their contents are kept so long
        environments.create("default", "math", ["sympy"])
    redis.zadd(names.deleted_builds("default"), {"math/1": time.time() - KEPT_S - 1})
    environments.create("default", "math", ["sympy"])


def test_contents_are_named_by_builds_and_by_batches_that_run(environments: Environments, store: Store) -> None:
    assert environments.contents() == set()
    use = ready(environments, "math")
    store.graders.create("default", "solver", "solver", "", _proved_in(use))
    wanted = Wanted("solver", store.graders.version("default", "solver"))
    batch = accept(store, 1, wanted)
    store.graders.delete("default", "solver")
    environments.delete("default", "math")
    assert environments.contents() == {SHA256}  # the batch scores with it
    store.batches.cancel("default", batch)
    assert environments.contents() == set()


def test_versions_of_before_there_were_environments_are_read(store: Store) -> None:
    store.graders.create("default", "old", "old", "", proved())
    kept = store.redis.hget(names.versions("default", "old"), "1")
    assert isinstance(kept, bytes)
    assert b'"environment":null,' in kept
    store.redis.hset(names.versions("default", "old"), "1", kept.replace(b'"environment":null,', b""))
    assert store.graders.version("default", "old", 1).environment is None
