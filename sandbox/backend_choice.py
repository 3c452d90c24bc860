"""Which backend builds the sandboxes. None is taken that has not built one."""

from collections.abc import Callable

from sandbox.backends.base import Backend
from sandbox.errors import InfrastructureError, IsolationUnavailable
from sandbox.session import Session
from sandbox.settings import SandboxSettings


def bubblewrap(settings: SandboxSettings) -> Backend:
    """Namespaces by bubblewrap. Raises IsolationUnavailable where it cannot be had."""
    from sandbox.backends.bubblewrap import Bubblewrap

    return Bubblewrap(settings)


def docker(settings: SandboxSettings) -> Backend:
    """Containers of a Docker engine. Raises IsolationUnavailable where there is none."""
    from sandbox.backends.docker import Docker  # its client takes a while to import

    return Docker(settings)


# In the order in which `auto` tries them.
BACKENDS: dict[str, Callable[[SandboxSettings], Backend]] = {"bubblewrap": bubblewrap, "docker": docker}


def choose(settings: SandboxSettings) -> Backend:
    """The backend that the settings name; `auto` takes the first that is safe here.

    Raises:
        IsolationUnavailable: none is; the message says why, and how to get one.
    """
    wanted = list(BACKENDS) if settings.backend == "auto" else [settings.backend]
    refused = []
    for name in wanted:
        try:
            return _proved(BACKENDS[name](settings))
        except IsolationUnavailable as error:
            refused.append(f"{name}: {error}")
    raise IsolationUnavailable("\n".join(refused))


def _proved(backend: Backend) -> Backend:
    try:
        prove(backend)
    except BaseException:
        backend.close()
        raise
    return backend


def prove(backend: Backend) -> None:
    """Starts a sandbox and waits for its first word.

    Raises:
        IsolationUnavailable: it does not start here.
    """
    try:
        sandbox = backend.start()
        try:
            Session(sandbox).await_ready()
        finally:
            sandbox.end()
    except InfrastructureError as error:
        raise IsolationUnavailable(f"{backend.name} cannot build a sandbox here: {error}") from error
