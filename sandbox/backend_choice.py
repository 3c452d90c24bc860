"""Chooses the backend that builds sandboxes. A backend is accepted only after one has graded a thread."""

from collections.abc import Callable

from gradebox.outcome import Outcome
from sandbox import limits
from sandbox.backends.base import Backend
from sandbox.errors import InfrastructureError, IsolationUnavailable
from sandbox.grader_source import GraderSource
from sandbox.grading.channel import Ended
from sandbox.grading.grading_call import GradingCall
from sandbox.grading.session import Session
from sandbox.settings import SandboxSettings


def bubblewrap(settings: SandboxSettings) -> Backend:
    """The bubblewrap backend, which uses Linux namespaces. Raises IsolationUnavailable if it cannot be used here."""
    from sandbox.backends.bubblewrap import Bubblewrap

    return Bubblewrap(settings)


def docker(settings: SandboxSettings) -> Backend:
    """The Docker backend, which uses containers. Raises IsolationUnavailable if it cannot be used here."""
    from sandbox.backends.docker import Docker  # here, because importing its client takes a while

    return Docker(settings)


# In the order in which `auto` tries them.
BACKENDS: dict[str, Callable[[SandboxSettings], Backend]] = {"bubblewrap": bubblewrap, "docker": docker}


def choose(settings: SandboxSettings) -> Backend:
    """Returns the backend that the settings name; `auto` takes the first one that is safe here.

    Raises:
        IsolationUnavailable: no backend is safe here; the message gives the reasons and how to get one.
    """
    wanted = list(BACKENDS) if settings.backend == "auto" else [settings.backend]
    refused = []
    for name in wanted:
        try:
            return _proved(BACKENDS[name](settings), settings.processes)
        except IsolationUnavailable as error:
            refused.append(f"{name}: {str(error).rstrip('.')}.")
    raise IsolationUnavailable(" ".join(refused))


def _proved(backend: Backend, processes: int) -> Backend:
    try:
        prove(backend, processes)
    except BaseException:
        backend.close()
        raise
    return backend


def prove(backend: Backend, processes: int = limits.PROCESSES) -> None:
    """Starts a sandbox, loads a grader that may start so many processes into it, and grades a thread.

    Raises:
        IsolationUnavailable: the sandbox does not start here, loads no grader or grades nothing.
    """
    source = GraderSource("async def grade(thread):\n    return 1.0\n", memory_mb=limits.MAX_MEMORY_MB)
    call = GradingCall(b'{"completion": ""}', 1, 0, "proof", None)
    try:
        session = Session(backend.start())
        try:
            load_s, line_bytes, stdout_bytes = limits.LOAD_S, limits.MAX_LINE_BYTES, limits.STDOUT_BYTES
            told = limits.limits_of(source, load_s, line_bytes, stdout_bytes, processes=processes)
            loaded = session.load(source, told)
            if loaded.isolation is None:
                raise IsolationUnavailable(f"{backend.name} cannot load a grader here: {loaded.checks[-1].message}")
            call.score(session)
        finally:
            session.end()
    except (InfrastructureError, Ended) as error:
        raise IsolationUnavailable(f"{backend.name} cannot build a sandbox that works here: {error}") from error
    (outcome,) = call.outcomes
    assert isinstance(outcome, Outcome)  # this grader does not ask
    if outcome.score is None:
        reason = outcome.error.message if outcome.error else "it gave no score"
        raise IsolationUnavailable(f"{backend.name} cannot grade a thread here: {reason}")
