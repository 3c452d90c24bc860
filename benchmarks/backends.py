"""Docker against bubblewrap, in the same run. Neither is pinned, because the engine starts containers on any core."""

from contextlib import ExitStack
from time import perf_counter

from benchmarks import threads, timing
from benchmarks.layer import Layer
from benchmarks.results import MILLIS, TIMES, Results
from benchmarks.scale import Scale
from sandbox.backend_choice import choose
from sandbox.backends.base import Backend
from sandbox.errors import IsolationUnavailable
from sandbox.grading.session import Session
from sandbox.pool.pool import Pool
from sandbox.settings import SandboxSettings

GROUP = "docker against bubblewrap"
_TARGET = 0.9
_STARTS = 10


def measure(results: Results, scale: Scale) -> None:
    """Measures batches, and the time to start and end a sandbox."""
    with ExitStack() as stack:
        layers = {}
        path = threads.file(scale.threads, "regex")
        for name in ("bubblewrap", "docker"):
            settings = SandboxSettings.model_validate({"backend": name})
            try:
                backend = choose(settings)
            except IsolationUnavailable as error:
                results.skipped.append(f"{name}: {error}")
                return
            starts = timing.spread([_start(backend) for _ in range(_STARTS)])
            results.add(GROUP, f"start and end: {name}", starts.times(1000), MILLIS)
            layers[name] = Layer(stack.enter_context(Pool(backend, settings)), "regex", path)
        spent = timing.interleaved(scale.rounds, {name: layer.seconds for name, layer in layers.items()})
        note = f"{scale.threads:,} threads, the sandbox layer alone"
        figure = timing.ratio(spent["bubblewrap"], spent["docker"])
        results.add(GROUP, "regex", figure, TIMES, target=_TARGET, note=note)


def _start(backend: Backend) -> float:
    started = perf_counter()
    session = Session(backend.start())
    session.await_ready()
    session.end()
    return perf_counter() - started
