"""The time of one request: a score, a training step, a validation."""

from collections.abc import Callable
from time import sleep

import httpx

from benchmarks import threads, timing
from benchmarks.results import MILLIS, Results
from benchmarks.scale import Scale
from benchmarks.service import Service, running

LATENCY = "latency over HTTP"
_STEP = 64
_WARMING = 30
_PAUSE_S = 0.15  # in which the pool replaces the sandbox that a validation used


def measure(results: Results, scale: Scale) -> None:
    """Measures on one core, through the Python client."""
    with timing.pinned(1):
        with running() as service:
            _one_score(results, scale, service)
            _step(results, scale, service)
            _proofs(results, scale, service, "validate, warm pool", 8.0)
        with running(warm_sandboxes=0) as service:
            _proofs(results, scale, service, "validate, cold", 25.0)


def _one_score(results: Results, scale: Scale, service: Service) -> None:
    thread = threads.some(1)
    with httpx.Client(base_url=service.url, trust_env=False) as plain:
        runs = {
            "healthz": lambda: _millis(lambda: plain.get("/healthz").raise_for_status()),
            "one score": lambda: _millis(lambda: service.client.score("regex", thread)),
        }
        timing.interleaved(_WARMING, runs)
        spent = timing.interleaved(scale.requests, runs)
    results.series["latency"] = {name: sorted(values) for name, values in spent.items()}
    for percent, most in ((50, 2.0), (99, 5.0)):
        health, score = (timing.percentile(spent[name], percent) for name in runs)
        note = f"{score:.2f} ms, /healthz {health:.2f} ms; {scale.requests} requests"
        name = f"one score over /healthz, p{percent}"
        results.add(LATENCY, name, score - health, MILLIS, target=most, at_most=True, note=note)


def _step(results: Results, scale: Scale, service: Service) -> None:
    step = threads.some(_STEP)
    spent = [_millis(lambda: service.client.score("regex", step)) for _ in range(_WARMING + scale.steps)][_WARMING:]
    _keep(results, "64 completions", spent)
    note = f"{scale.steps} requests, p99 {timing.percentile(spent, 99):.1f} ms"
    found = timing.spread(spent)
    results.add(LATENCY, "64 completions, p50", found, MILLIS, target=5.0, at_most=True, note=note)


def _proofs(results: Results, scale: Scale, service: Service, name: str, most: float) -> None:
    """Times validations. Each source is a new one, which no sandbox has loaded."""
    source, thread, spent = threads.source("regex"), threads.some(1), []
    for number in range(scale.proofs):
        sleep(_PAUSE_S)
        changed = f"{source}\n# {name} {number}\n"
        spent.append(_millis(lambda text=changed: service.client.graders.validate(text, thread)))  # type: ignore[misc]  # the lambda has a default
    _keep(results, name, spent)
    found, note = timing.spread(spent), f"{scale.proofs} requests"
    results.add(LATENCY, f"{name}, p50", found, MILLIS, target=most, at_most=True, note=note)


def _keep(results: Results, name: str, spent: list[float]) -> None:
    curves = results.series["latency"]
    assert isinstance(curves, dict)
    curves[name] = sorted(spent)


def _millis(request: Callable[[], object]) -> float:
    return timing.seconds(request) * 1000
