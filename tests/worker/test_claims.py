from storage.store import Store
from tests.storage.making import accept
from worker.claims import Claims
from worker.runtime import Runtime


def test_what_is_asked_for_ahead_comes_next(store: Store, runtime: Runtime) -> None:
    batch = accept(store, 2500)
    with Claims(runtime) as claims:
        first = claims.next()
        claims.look_ahead(1)
        claims.look_ahead(1)
        second, third, fourth = claims.next(), claims.next(), claims.next()
        found = [lease and (lease.batch, lease.unit) for lease in (first, second, third)]
        assert found == [(batch, 0), (batch, 1), (batch, 2)]
        assert fourth is None
        assert runtime.heartbeat.leases == {first, second, third}
    assert runtime.heartbeat.leases == set()


def test_what_was_asked_for_ahead_and_is_not_wanted_was_never_tried(store: Store, runtime: Runtime) -> None:
    accept(store, 2500)
    with Claims(runtime) as claims:
        claims.next()
        claims.look_ahead(1)
    with Claims(runtime) as claims:
        again = claims.next()
        assert again is not None
        assert (again.unit, again.attempt) == (1, 1)


def test_what_is_given_back_counts_as_a_try_where_it_was_one(store: Store, runtime: Runtime) -> None:
    accept(store, 10)
    with Claims(runtime) as claims:
        for tried, attempt in ((True, 1), (False, 2), (True, 2), (True, 3)):
            lease = claims.next()
            assert lease is not None
            assert lease.attempt == attempt
            claims.give_back(lease, tried=tried)
            assert runtime.heartbeat.leases == set()


def test_several_come_at_once_where_many_wait(store: Store, runtime: Runtime) -> None:
    batch = accept(store, 20_000)
    with Claims(runtime) as claims:
        claims.next()
        claims.look_ahead(4)
        leases = [claims.next() for _ in range(4)]
        assert [lease and (lease.batch, lease.unit, lease.attempt) for lease in leases] == [
            (batch, unit, 1) for unit in (1, 2, 3, 4)
        ]


def test_what_was_asked_for_ahead_is_let_go_of_when_a_unit_is_slow(store: Store, runtime: Runtime) -> None:
    accept(store, 20_000)
    with Claims(runtime) as claims:
        first = claims.next()
        claims.look_ahead(4)
        second = claims.next()
        claims.let_go()
        assert runtime.heartbeat.leases == {first, second}
        third = claims.next()
        assert third is not None
        assert (third.unit, third.attempt) == (4, 1)
