"""Chooses the backend that builds sandboxes. A backend is accepted only after it has started one."""

from collections.abc import Callable

from sandbox.backends.base import Backend
from sandbox.errors import InfrastructureError, IsolationUnavailable
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
            return _proved(BACKENDS[name](settings))
        except IsolationUnavailable as error:
            refused.append(f"{name}: {str(error).rstrip('.')}.")
    raise IsolationUnavailable(" ".join(refused))


def _proved(backend: Backend) -> Backend:
    try:
        prove(backend)
    except BaseException:
        backend.close()
        raise
    return backend


def prove(backend: Backend) -> None:
    """Starts a sandbox and waits until its guest reports that it is ready.

    Raises:
        IsolationUnavailable: the sandbox does not start here.
    """
    try:
        sandbox = backend.start()
        try:
            Session(sandbox).await_ready()
        finally:
            sandbox.end()
    except InfrastructureError as error:
        raise IsolationUnavailable(f"{backend.name} cannot build a sandbox here: {error}") from error
