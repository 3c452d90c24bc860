"""Which backend builds the sandboxes. None is taken that has not built one."""

from sandbox.backends.base import Backend
from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.errors import InfrastructureError, IsolationUnavailable
from sandbox.session import Session
from sandbox.settings import SandboxSettings


def choose(settings: SandboxSettings) -> Backend:
    """The backend that the settings name; `auto` takes the first that is safe here.

    Raises:
        IsolationUnavailable: none is; the message says why, and how to get one.
    """
    if settings.backend == "docker":
        raise IsolationUnavailable("the Docker backend is not part of this version: use `--backend bubblewrap`.")
    backend = Bubblewrap(settings)
    prove(backend)
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
