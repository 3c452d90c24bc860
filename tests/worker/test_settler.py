import json
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from gradebox.outcome import Outcome
from storage import outcomes
from storage.store import Store
from storage.tally import tally
from tests.storage.making import accept
from worker import settler
from worker.claims import Claims
from worker.runtime import Runtime
from worker.settler import Settler
from worker.unit import Scored


def scored(claims: Claims, first: int) -> Scored:
    lease = claims.next()
    assert lease is not None
    made = [Outcome(first + number, "g@1", 1.0, 0.1) for number in range(1000)]
    return Scored(lease, 0, "g@1", msgspec.json.Encoder().encode_lines(made), tally(made), 0.01)


def test_units_that_come_together_count_each_once(store: Store, runtime: Runtime) -> None:
    batch = accept(store, 3000)
    with Claims(runtime) as claims, Settler(runtime, claims) as settling:
        for number in range(3):
            settling.add(scored(claims, 1000 * number))
        settling.flush()
        assert runtime.heartbeat.leases == set()
    found = store.batches.get("default", batch)
    assert (found.state, found.done, found.scored) == ("finished", 3000, 3000)
    lines = b"".join(outcomes.read(store.batches, store.spool, batch)).splitlines()
    assert [json.loads(line)["index"] for line in lines] == list(range(3000))


def test_what_cannot_be_written_is_given_back(store: Store, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settler, "_PAUSE_S", 0.01)
    batch = accept(store, 1000)
    in_the_way = Path(store.spool._root) / "outcomes"
    in_the_way.write_bytes(b"a file where the folder is to be")
    with Claims(runtime) as claims, Settler(runtime, claims) as settling:
        settling.add(scored(claims, 0))
        settling.flush()
        assert store.batches.get("default", batch).done == 0
        in_the_way.unlink()
        settling.add(scored(claims, 0))
    assert store.batches.get("default", batch).state == "finished"


def test_units_that_are_quick_wait_for_none_that_is_written(
    store: Store, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = store.spool.write_outcomes

    def write_slowly(batch: str, files: Mapping[tuple[int, int], bytes]) -> None:
        time.sleep(0.1)
        write(batch, files)

    monkeypatch.setattr(settler, "_GATHER_S", 0.1)
    monkeypatch.setattr(store.spool, "write_outcomes", write_slowly)
    accept(store, 60_000)
    with Claims(runtime) as claims, Settler(runtime, claims) as settling:
        units = [scored(claims, 1000 * number) for number in range(50)]
        waits = []
        for unit in units:
            began = time.monotonic()
            settling.add(unit)
            waits.append(time.monotonic() - began)
            time.sleep(0.03)
        assert max(waits) < 0.05  # seven come while one is written, and there is room for sixteen
