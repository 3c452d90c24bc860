from storage.store import Store
from tests.storage.making import accept
from worker.context import WorkerContext
from worker.unit_queue import UnitQueue


def test_what_is_given_back_counts_as_a_try_where_it_was_one(store: Store, context: WorkerContext) -> None:
    accept(store, 10)
    with UnitQueue(context) as queue:
        for tried, attempt, tries in ((True, 1, 1), (False, 2, 2), (True, 3, 2), (True, 4, 3)):
            lease = queue.next()
            assert lease is not None and (lease.attempt, lease.tries) == (attempt, tries)
            assert context.heartbeat.leases == {lease}
            queue.give_back(lease, tried=tried)
            assert context.heartbeat.leases == set()


def test_leases_of_one_loop_outlive_those_of_the_other(store: Store, context: WorkerContext) -> None:
    accept(store, 2500)
    with UnitQueue(context) as queue:
        mine = queue.next()
        with UnitQueue(context) as others:
            others.next()
            assert len(context.heartbeat.leases) == 2
        assert context.heartbeat.leases == {mine}
