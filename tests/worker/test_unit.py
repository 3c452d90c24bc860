import json

import pytest

from sandbox.pool import Pool
from storage.plans import Wanted
from storage.store import Store
from tests.storage.making import accept, proved
from worker.bench import Bench
from worker.claims import Claims
from worker.dispatch import Dispatch
from worker.heartbeat import Heartbeat
from worker.runtime import Runtime
from worker.unit import score

pytestmark = pytest.mark.sandbox
SLOW = "import time\nasync def grade(thread):\n    time.sleep(0.006)\n    return 1.0\n"
QUICK = "async def grade(thread):\n    return 1.0\n"


@pytest.fixture
def runtime(store: Store, pool: Pool) -> Runtime:
    dispatch = Dispatch(store)
    return Runtime(store, pool, dispatch, Heartbeat(store, dispatch))


def wanted(store: Store, source: str) -> Wanted:
    store.graders.create("default", "g", "g", "", proved(source))
    return Wanted("g", store.graders.version("default", "g"))


@pytest.mark.parametrize(("source", "held"), [(SLOW, 2), (QUICK, 5)])
def test_units_claimed_ahead_go_back_while_one_takes_long(
    source: str, held: int, store: Store, runtime: Runtime
) -> None:
    batch = accept(store, 20_000, wanted(store, source))
    with Bench(store, runtime.pool) as bench, Claims(runtime) as claims:
        lease = claims.next()
        assert lease is not None
        claims.look_ahead(4)
        scored = score(runtime, bench, lease, claims.let_go)
        assert scored is not None
        assert [json.loads(line)["score"] for line in scored.lines.splitlines()] == [1.0] * 1000
        assert (scored.counted.count, scored.counted.mean) == (1000, 1.0)
        claims.next()  # what was asked for ahead has come by now, or one more is asked for
        assert len(runtime.heartbeat.leases) == held
    assert store.batches.get("default", batch).state == "running"
