"""Scores a batch of a million completions. Reports the memory of each role, and what is left over at the end."""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import processes
from tests.chaos.service import ROLES, Service

GRADER = "async def grade(thread):\n    return int(thread.completion()) % 1000 / 1000\n"
SMALL = 20_000
IDLE_S = 3.0  # after which the service closes an idle sandbox
SETTLE_S = 30.0
MOST_GROWTH = 1.25
MOST_GROWTH_MIB = 32.0
"""Allowed growth of small processes, of which a few MiB are many percent."""


THREADS = 8  # of each process that may use Redis at once; each keeps a connection open


@dataclass(frozen=True)
class Left:
    """The processes of an idle service, and the open files of each role."""

    processes: Counter[str]
    files: dict[str, int]

    def more_than(self, before: "Left") -> bool:
        """Whether the processes differ, or there are more new open files than threads can hold connections to Redis."""
        pids = before.processes
        allowed = {role: THREADS * pids[role] for role in ("api", "worker")}
        allowed["redis"] = sum(allowed.values())
        return self.processes != pids or any(self.files[role] > before.files[role] + allowed[role] for role in ROLES)


NOTHING = Left(Counter(), {})


@dataclass
class Report:
    """The peak resident memory of each role in MiB, for a small and for the large batch, and what was left over."""

    completions: int
    seconds: float = 0.0
    wrong: int = 0
    small: dict[str, float] = field(default_factory=dict)
    large: dict[str, float] = field(default_factory=dict)
    before: Left = NOTHING
    after: Left = NOTHING

    @property
    def growing(self) -> list[str]:
        """The roles whose memory grows with the batch."""
        return [
            role
            for role, peak in self.large.items()
            if peak > max(self.small[role] * MOST_GROWTH, self.small[role] + MOST_GROWTH_MIB)
        ]

    def __str__(self) -> str:
        peaks = ", ".join(f"{role} {self.small[role]:.0f} -> {self.large[role]:.0f}" for role in ROLES)
        return (
            f"{self.completions} completions in {self.seconds:.0f} s, {self.wrong} wrong; "
            f"peak RSS in MiB ({SMALL} -> {self.completions}): {peaks}; before {self.before}, after {self.after}"
        )


def run(completions: int, folder: Path) -> Report:
    """Starts a service with two workers, scores a small and the large batch, and waits until the service is idle."""
    report = Report(completions)
    with Service(folder, workers=2, settings={"GRADEBOX_IDLE_S": str(IDLE_S)}) as service:
        service.await_ready()
        with service.client() as client:
            client.graders.create.function(key="fast", fn=GRADER, isolation="batch", threads=[{"completion": "1"}])
            report.small = _peaks(service, lambda: _score(service, report, SMALL))
            _score(service, report, completions // 5)  # so that each thread that uses Redis has its connection
            time.sleep(3 * IDLE_S)
            report.before = _left(service)
            began = time.monotonic()
            report.large = _peaks(service, lambda: _score(service, report, completions))
            report.seconds = time.monotonic() - began
            report.after = _settled(service, report.before)
        assert service.stop() == 0
    return report


def _score(service: Service, report: Report, count: int) -> None:
    """Scores `count` completions with a new client, whose connections are closed before files are counted."""
    with service.client() as client:
        batch = client.batches.create("fast", _lines(count))
        batch.wait(progress=False)
        read = 0
        for read, outcome in enumerate(batch.outcomes(), 1):
            report.wrong += outcome.score != (read - 1) % 1000 / 1000
        report.wrong += count - read
        batch.delete()


def _lines(count: int) -> Iterator[dict[str, object]]:
    return ({"completion": str(number)} for number in range(count))


def _peaks(service: Service, work: Callable[[], None]) -> dict[str, float]:
    """The peak resident memory of each role during `work`; of several processes the largest peak."""
    pids = service.processes()
    for role in ROLES:
        for pid in pids[role]:
            processes.forget_peak(pid)
    work()
    return {role: max(processes.peak_rss(pid) for pid in pids[role]) for role in ROLES}


def _settled(service: Service, expected: Left) -> Left:
    """What is left once there is no more than `expected`, or after SETTLE_S. Idle sandboxes need time to close."""
    ends = time.monotonic() + SETTLE_S
    while (found := _left(service)).more_than(expected) and time.monotonic() < ends:
        time.sleep(1.0)
    return found


def _left(service: Service) -> Left:
    pids = service.processes()
    counted = Counter({kind: len(found) for kind, found in pids.items()})
    files = {role: sum(len([*Path(f"/proc/{pid}/fd").iterdir()]) for pid in pids[role]) for role in ROLES}
    return Left(counted, files)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make scale", description=__doc__)
    parser.add_argument("--completions", type=int, default=1_000_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gradebox-scale-") as folder:
        report = run(chosen.completions, Path(folder))
    print(report)
    return int(bool(report.wrong or report.growing or report.after.more_than(report.before)))


if __name__ == "__main__":
    sys.exit(main())
