"""Runs batches while processes of the service are killed. At the end each outcome must exist once and be right."""

import random
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gradebox.client import Client
from gradebox.errors import ApiError, ConnectionFailed
from tests.chaos.service import Service
from tests.chaos.work import Work, create_graders, said, submit

SHARES = {"worker": 30, "sandbox": 30, "api": 15, "redis": 15, "serve": 4, "everything": 6}
AT_ONCE = 4
PEEKS = 0.3  # the share of kills after which outcomes are read
END_S = 900.0
_SHOWN_EACH = 20


@dataclass(frozen=True)
class Plan:
    """The size of a run: the number of kills and completions, and the average seconds between kills."""

    seed: int
    kills: int
    completions: int
    batch: int = 2000
    pause_s: float = 1.0
    workers: int = 2


@dataclass
class Report:
    """The result of a run."""

    killed: Counter[str] = field(default_factory=Counter)
    completions: int = 0
    outcomes: int = 0
    lost: int = 0
    duplicated: int = 0
    changed: int = 0
    batches: int = 0
    starts: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        killed = ", ".join(f"{count} {name}" for name, count in sorted(self.killed.items()))
        return (
            f"{self.killed.total()} kills ({killed}; {self.starts} starts of the service) during {self.batches} "
            f"batches of {self.completions} completions, {self.outcomes} outcomes, in {self.seconds:.0f} s: "
            f"{self.lost} lost, {self.duplicated} duplicated, {self.changed} changed"
        )


def run(plan: Plan, folder: Path) -> Report:
    """Runs a plan. Raises AssertionError if anything is left over. The report counts lost and wrong outcomes."""
    chance, report, began = random.Random(plan.seed), Report(), time.monotonic()
    with Service(folder, plan.workers) as service:
        service.await_ready()
        with service.client() as client:
            create_graders(client)
            works = _kill_at_work(plan, chance, service, client, report)
            service.await_ready()
            service.wait(lambda: not _unfinished(works), END_S, lambda: [work.handle for work in works])
            for work in works:
                _judge(work, report)
            assert len(client.batches.list(200)) == min(len(works), 200)
        _assert_nothing_is_left(works, service)
    report.starts, report.seconds = service.starts, time.monotonic() - began
    return report


def _kill_at_work(plan: Plan, chance: random.Random, service: Service, client: Client, report: Report) -> list[Work]:
    works: list[Work] = []
    while report.killed.total() < plan.kills or sum(work.size for work in works) < plan.completions:
        if _unfinished(works) < AT_ONCE:
            number = len(works)
            works.append(submit(client, chance, number, plan.batch + number, service.ensure))
        if report.killed.total() < plan.kills:
            time.sleep(chance.uniform(0, 2 * plan.pause_s))
            _kill(chance, service, report)
            if report.killed.total() % _SHOWN_EACH == 0:
                print(f"{report.killed.total()} of {plan.kills} kills, {len(works)} batches", file=sys.stderr)
        else:
            time.sleep(0.2)
        service.ensure()
        if chance.random() < PEEKS:
            with suppress(ConnectionFailed, ApiError):
                chance.choice(works).peek()
    return works


def _kill(chance: random.Random, service: Service, report: Report) -> None:
    """Kills a random running process, or all of them."""
    (kind,) = chance.choices([*SHARES], [*SHARES.values()])
    there = service.processes()
    victims = service.family() if kind == "everything" else there[kind]
    if kind != "everything" and victims:
        victims = [chance.choice(victims)]
    report.killed[kind] += service.kill(victims)


def _unfinished(works: list[Work]) -> int:
    for work in works:
        if work.handle.state not in ("finished", "cancelled", "failed"):
            with suppress(ConnectionFailed, ApiError):
                work.handle.refresh()
    return sum(work.handle.state != "finished" for work in works)


def _judge(work: Work, report: Report) -> None:
    work.peek()
    found, expected = said(work.handle.outcomes()), [*work.expected()]
    counted = Counter((one[0], one[1]) for one in found)
    values = {(one[0], one[1]): one for one in found}
    report.batches += 1
    report.completions += work.size
    report.outcomes += len(found)
    report.lost += sum((one[0], one[1]) not in counted for one in expected)
    report.duplicated += sum(counted.values()) - len(counted)
    changed = [(one, values[one[0], one[1]]) for one in expected if values.get((one[0], one[1]), one) != one]
    report.changed += len(changed)
    for one in changed[:3]:
        print(f"batch {work.handle.id}: expected {one[0]}, found {one[1]}", file=sys.stderr)
    assert [one[0] for one in found] == [one[0] for one in expected] or report.lost or report.duplicated


def _assert_nothing_is_left(works: list[Work], service: Service) -> None:
    redis = service.redis
    held = ("turns", "turns-asking", "leases", "waiting", "active", "sources", "holds")
    assert not redis.exists(*(f"gradebox:{name}" for name in held)), redis.keys("gradebox:*")
    uploads = {upload.decode() for upload, _ in redis.zscan_iter("gradebox:uploads")}
    service.processes()
    assert service.stop() == 0
    assert not service.left(), service.left()
    spool = service.folder / "data" / "spool"
    for work in works:
        files = [file.name for file in (spool / "outcomes" / work.handle.id).iterdir()]
        assert len(files) == len({name.partition("-")[0] for name in files}), f"files of lost races: {sorted(files)}"
    payloads = {file.stem for file in (spool / "payloads").iterdir()}
    # A kill may interrupt an upload. The janitor removes registered uploads an hour later.
    assert payloads - uploads == {work.handle.id for work in works}, "payloads of no batch"
