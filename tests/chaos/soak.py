"""Two honest projects score batches and completions all the time, while a third project attacks the service.

At first the honest projects run without the third, to measure how long their work takes.
"""

import argparse
import json
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import httpx

from gradebox.client import Client
from tests.chaos import hostile_tenant
from tests.chaos.hostile_tenant import HostileTenant
from tests.chaos.service import Service

HONEST = ("honest-1", "honest-2")
GRADER = "import time\nasync def grade(thread):\n    time.sleep(0.002)\n    return int(thread.completion()) % 7 / 7\n"
COMPLETIONS = 300
SCORES = 6  # after each batch: the mean of fewer depends on single ones in a short run
ALONE_SHARE = 0.2  # of the time
LONGEST_S = 30.0  # the timeout of an answer or a batch
LEAST_S = 0.1  # of shorter times, a ratio measures the machine, not the service
FACTOR = 2.0


@dataclass(frozen=True)
class Plan:
    """The duration, and by what factor honest work may take longer beside the hostile project."""

    seconds: float
    workers: int = 2
    factor: float = FACTOR


@dataclass
class Honest:
    """One honest project: the durations of its work, and its faults."""

    client: httpx.Client
    project: str
    batches: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def work(self, ends: float) -> None:
        """Scores a batch, then makes some score requests, and repeats both until `ends`."""
        for step in cycle((self._batch, *[self._score] * SCORES)):
            if time.monotonic() > ends:
                return
            try:
                step()
            except (httpx.HTTPError, KeyError, ValueError) as error:
                self.faults.append(f"{self.project}: no answer, or none that can be read: {error!r}")
                time.sleep(1.0)

    def _batch(self) -> None:
        began = time.monotonic()
        lines = b"".join(b'{"completion": "%d"}\n' % number for number in range(COMPLETIONS))
        path = f"/v1/projects/{self.project}/batches"
        headers = {"Content-Type": "application/x-ndjson"}
        batch = self._ask("POST", path, 202, params={"grader": "g"}, content=lines, headers=headers).json()
        while batch["state"] not in ("finished", "failed", "cancelled") and time.monotonic() < began + LONGEST_S:
            batch = self._ask("GET", f"{path}/{batch['id']}", 200, params={"wait_s": 5}).json()
        self.batches.append(time.monotonic() - began)
        if batch["state"] != "finished":
            self.faults.append(f"{self.project}: a batch is {batch['state']} after {self.batches[-1]:.0f} s")
        outcomes = self._ask("GET", f"{path}/{batch['id']}/outcomes", 200).text.splitlines()
        self._check([json.loads(line) for line in outcomes], COMPLETIONS)

    def _score(self) -> None:
        began = time.monotonic()
        threads = [{"completion": str(number)} for number in range(4)]
        path = f"/v1/projects/{self.project}/graders/g/score"
        found = self._ask("POST", path, 200, json={"threads": threads}).json()
        self.scores.append(time.monotonic() - began)
        self._check(found["outcomes"], 4)

    def _ask(self, method: str, path: str, status: int, **more: object) -> httpx.Response:
        response = self.client.request(method, path, **more)  # type: ignore[arg-type]  # arguments of httpx
        self.statuses[response.status_code] += 1
        if response.status_code != status:
            raise ValueError(f"{method} {path}: {response.status_code} {response.text[:200]}")
        return response

    def _check(self, outcomes: list[dict[str, object]], count: int) -> None:
        scores = [outcome["score"] for outcome in outcomes]
        if scores != [number % 7 / 7 for number in range(count)]:
            errors = [outcome.get("error") for outcome in outcomes if outcome["score"] is None]
            self.faults.append(f"{self.project}: {len(scores)} outcomes of {count}, wrong ones or errors: {errors[:2]}")


@dataclass
class Report:
    """The rows of the table. `broken` describes the guarantees that did not hold."""

    rows: list[tuple[str, str, str, str]]
    broken: list[str]

    def __str__(self) -> str:
        widths = [max(len(row[column]) for row in self.rows) for column in range(4)]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in self.rows]
        return "\n".join([*table, *(f"BROKEN: {one}" for one in self.broken)])


def run(plan: Plan, folder: Path) -> Report:
    """Runs the service, the two honest projects and the hostile one."""
    with Service(folder, plan.workers) as service:
        service.await_ready()
        before = service.processes()
        keys = _prepare(service)
        alone = _honest(service.url, keys, plan.seconds * ALONE_SHARE)
        tenant = HostileTenant(service.url, keys[hostile_tenant.PROJECT])
        with _attacking(tenant), _watched(service.url) as health:
            beside = _honest(service.url, keys, plan.seconds * (1 - ALONE_SHARE))
        died = [role for role in ("api", "worker", "redis") if service.processes()[role] != before[role]]
        exit_code = service.stop()
        left = service.left()
    broken = [f"{role} has ended and was started again" for role in died]
    broken += [f"the service ended with {exit_code}"] * bool(exit_code) + [f"is left: {one}" for one in left]
    broken += [f"/healthz: {one}" for one in health] + [f"an attack is broken: {one}" for one in tenant.faults]
    return _report(plan, alone, beside, tenant, broken)


def _prepare(service: Service) -> dict[str, str]:
    """Creates projects and graders. Returns a key of role `score` for each project."""
    keys: dict[str, str] = {}
    with service.client() as operator:
        for project in (*HONEST, hostile_tenant.PROJECT):
            operator.projects.create(project)
            keys[project] = operator.keys.create(project, projects=[project], role="score").secret or ""
    secret = (service.folder / "data" / "api-key").read_text().strip()
    for project in HONEST:
        with Client(service.url, secret, project) as client:
            client.graders.create.function(key="g", fn=GRADER, threads=[{"completion": "1"}])
    with Client(service.url, secret, hostile_tenant.PROJECT) as client:
        for key, (source, timeout_s) in hostile_tenant.GRADERS.items():
            client.graders.create.function(key=key, fn=source, timeout_s=timeout_s, threads=[{"completion": "1"}])
    return keys


def _honest(url: str, keys: dict[str, str], seconds: float) -> list[Honest]:
    """Runs all honest projects at once for `seconds`, and returns them."""
    ends = time.monotonic() + seconds
    made: list[Honest] = []
    for name in HONEST:
        headers = {"Authorization": f"Bearer {keys[name]}"}
        made.append(Honest(httpx.Client(base_url=url, headers=headers, timeout=LONGEST_S, trust_env=False), name))
    threads = [threading.Thread(target=one.work, args=(ends,)) for one in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in made:
        one.client.close()
    return made


@contextmanager
def _attacking(tenant: HostileTenant) -> Iterator[None]:
    threads = tenant.start()
    try:
        yield
    finally:
        tenant.over.set()
        for thread in threads:
            thread.join()


@contextmanager
def _watched(url: str) -> Iterator[list[str]]:
    """Requests /healthz twice a second without a key. Yields the list of faults."""
    faults: list[str] = []
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.5):
            try:
                if (status := httpx.get(f"{url}/healthz", timeout=10, trust_env=False).status_code) != httpx.codes.OK:
                    faults.append(f"answered {status}")
            except httpx.HTTPError as error:
                faults.append(repr(error))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield faults
    finally:
        over.set()
        asking.join()


def _report(plan: Plan, alone: list[Honest], beside: list[Honest], tenant: HostileTenant, broken: list[str]) -> Report:
    rows = [("project", "what", "alone", "beside the hostile one")]
    for before, after in zip(alone, beside, strict=True):
        for what, first, then in (("batch", before.batches, after.batches), ("score", before.scores, after.scores)):
            rows.append((before.project, what, _told(first), _told(then)))
            if not first or not then:
                broken.append(f"{before.project}: no {what} came to its end")
            elif statistics.mean(then) > plan.factor * max(statistics.mean(first), LEAST_S):
                ratio = statistics.mean(then) / statistics.mean(first)
                broken.append(f"{before.project}: a {what} takes {ratio:.1f} times as long")
        rows.append((before.project, "answers", _counted(before.statuses), _counted(after.statuses)))
        broken += before.faults + after.faults
    rows.append((hostile_tenant.PROJECT, "answers", "", _counted(tenant.answers)))
    return Report(rows, broken)


def _told(seconds: list[float]) -> str:
    if not seconds:
        return "none"
    return f"{len(seconds)}, mean {statistics.mean(seconds):.2f} s, longest {max(seconds):.2f} s"


def _counted(counts: Counter[int] | Counter[str]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(counts.items(), key=lambda one: str(one[0])))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where the service keeps its data; it stays [a temporary one]")
    chosen = parser.parse_args()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="gradebox-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the service is killed too
    print(f"data in {folder}", flush=True)
    report = run(Plan(chosen.seconds, chosen.workers), folder)
    print(report)
    return int(bool(report.broken))


if __name__ == "__main__":
    sys.exit(main())
