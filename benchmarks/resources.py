"""Memory, CPU time per completion and per poll, and the cost of an idle service."""

from time import sleep

import httpx

from benchmarks import processes, threads, timing
from benchmarks.results import MEBIBYTES, MICROS, MILLIS, PERCENT, TIMES, Results
from benchmarks.scale import Scale
from benchmarks.service import Service, running

MEMORY, IDLE = "memory and CPU", "idle service"
ROLES = {"API": "api", "worker": "worker", "Redis": "redis-server"}
_SETTLE_S = 5.0
_LEAST = 100_000  # completions per CPU figure, because single batches differ by a tenth


def measure(results: Results, scale: Scale) -> None:
    """Measures one worker on one core: an idle service, and batches from small to large in one service."""
    with timing.pinned(1), running(graders=()) as service:
        _idle(results, scale, service)
    with timing.pinned(1), running() as service:
        service.score("regex", threads.file(1000), 1000)
        curves: list[dict[str, float]] = [_batch(service, count) for count in scale.sizes]
        results.series["resources"] = curves
        _flatness(results, curves)
        _polls(results, scale, service)


def _batch(service: Service, count: int) -> dict[str, float]:
    pids = {role: service.role(name) for role, name in ROLES.items()}
    for pid in pids.values():
        processes.forget_peak(pid)
    path, times = threads.file(count), max(1, _LEAST // count)
    before = processes.cpu_seconds(service.pid)
    for _ in range(times):
        service.score("regex", path, count)
    spent = processes.cpu_seconds(service.pid) - before
    found = {"completions": float(count), "cpu_us": spent / count / times * 1e6}
    return found | {role: processes.peak_rss(pid) for role, pid in pids.items()}


def _flatness(results: Results, curves: list[dict[str, float]]) -> None:
    first, last = curves[0], curves[-1]
    span = f"{first['completions']:,.0f} to {last['completions']:,.0f} completions"
    for role in ROLES:
        peaks = [curve[role] for curve in curves]
        note = f"peak RSS, {', '.join(f'{peak:.0f}' for peak in peaks)} MiB"
        results.add(MEMORY, f"{role}: {span}", max(peaks) / first[role], TIMES, target=1.10, at_most=True, note=note)
    most = max(curve["API"] for curve in curves)
    results.add(MEMORY, "API, peak RSS", most, MEBIBYTES, target=80.0, at_most=True)
    larger = [curve for curve in curves if curve["completions"] >= 5000]
    cpu = [curve["cpu_us"] for curve in larger]
    note = f"{', '.join(f'{each:.1f}' for each in cpu)} µs, of the service without the client"
    name = f"CPU a completion: 5,000 to {last['completions']:,.0f}"
    results.add(MEMORY, name, max(cpu) / min(cpu), TIMES, target=1.10, at_most=True, note=note)
    results.add("per completion", "service, CPU of all its processes", cpu[-1], MICROS)


def _polls(results: Results, scale: Scale, service: Service) -> None:
    batch = service.client.batches.create("regex", threads.file(1000))
    batch.wait(progress=False)
    address = f"/v1/projects/{batch.status.project}/batches/{batch.id}"
    api = service.role("api")
    spent = {}
    with httpx.Client(
        base_url=service.url, headers={"Authorization": f"Bearer {service.key}"}, trust_env=False
    ) as plain:
        for path in ("/healthz", address):
            before = processes.cpu_seconds(api)
            for _ in range(scale.requests):
                plain.get(path).raise_for_status()
            spent[path] = (processes.cpu_seconds(api) - before) / scale.requests * 1000
    note = f"an ended batch of 1,000; {scale.requests} requests; `/healthz` {spent['/healthz']:.2f} ms"
    name = "GET of a batch, CPU of the API"
    results.add(MEMORY, name, spent[address], MILLIS, target=1.0, at_most=True, note=note)


def _idle(results: Results, scale: Scale, service: Service) -> None:
    sleep(_SETTLE_S)
    before = processes.cpu_seconds(service.pid)
    sleep(scale.idle_s)
    spent = processes.cpu_seconds(service.pid) - before
    pids = processes.family(service.pid)
    total = sum(map(processes.pss, pids))
    note = f"over {scale.idle_s:g} s, {len(pids)} processes, with a warm pool each in API and worker"
    results.add(IDLE, "CPU", spent / scale.idle_s * 100, PERCENT, target=1.0, at_most=True, note=note)
    roles = ", ".join(f"{role} {processes.rss(service.role(name)):.0f}" for role, name in ROLES.items())
    note = f"PSS of all; RSS of {roles} MiB"
    results.add(IDLE, "memory", total, MEBIBYTES, target=200.0, at_most=True, note=note)
