from storage.store import Store
from tests.storage.making import accept, claim, finish, wanted


def test_what_waits_is_seen_while_it_waits(store: Store) -> None:
    exact = wanted(store, "exact")
    first, _ = accept(store, 2500, exact), accept(store, 1500, exact)
    lease = claim(store)
    depth = store.queue.depth()
    assert (depth.queued, depth.running, depth.chunks_waiting, depth.chunks_lent) == (1, 1, 4, 1)
    assert depth.oldest_s > 0
    assert depth.completions == {"default": 4000}

    store.leases.release(lease)
    assert store.queue.depth().chunks_waiting == 5

    store.batches.cancel("default", first)
    for _ in range(2):
        finish(store, claim(store))
    depth = store.queue.depth()
    assert (depth.queued, depth.running, depth.chunks_waiting, depth.chunks_lent) == (0, 0, 0, 0)
    assert (depth.completions, depth.oldest_s) == ({}, 0)
    assert depth.redis_bytes > 100_000
