"""Tests what a Docker engine can do, with a real container, and with one of gVisor's if the engine has it."""

from collections.abc import Iterator
from contextlib import closing

from sandbox.backends.docker import Docker
from sandbox.doctor import inside
from sandbox.doctor.layer import Layer
from sandbox.errors import InfrastructureError, IsolationUnavailable
from sandbox.grading.channel import Ended
from sandbox.settings import SandboxSettings

_ENGINE = (
    "Install one (`apt-get install docker.io`), start it (`systemctl start docker`), and let this user reach it "
    "(`usermod -aG docker USER`, which gives that user the power of root; or rootless Docker), or name it: DOCKER_HOST."
)
_CONTAINER = "docs/docker.md says what an engine must be able to do; `GRADEBOX_DOCKER_CHANNEL=attach` needs least."
_SOCKET = (
    "The service and the engine must see one folder at the same path: name it with GRADEBOX_DOCKER_SOCKET_DIR "
    "(a service in a container needs it mounted; a unit of systemd no PrivateTmp=). Without, batches are slower."
)
_GROUPS = "Run the service as root on the engine's own machine. Without, the engine is asked, which takes longer."
_MAPPED = 'Not needed. `"userns-remap": "default"` in /etc/docker/daemon.json, or rootless Docker.'
_CPUS = "A kernel with CONFIG_CFS_BANDWIDTH. Without, a sandbox may use every processor of the machine."
_GVISOR = (
    "Not needed. Install a current one as https://gvisor.dev/docs/user_guide/install says (Debian's package of 2022 is "
    "too old for the guest), `runsc install -- --network=none`, restart Docker, set GRADEBOX_DOCKER_RUNTIME=runsc."
)


def examine(settings: SandboxSettings) -> Iterator[Layer]:
    """The layers of the Docker backend."""
    try:
        backend = Docker(settings)
    except IsolationUnavailable as error:
        yield Layer("a Docker engine", False, str(error), fix=_ENGINE)
        return
    with closing(backend):
        reported = backend.information
        yield Layer("a Docker engine", True, f"version {reported['ServerVersion']} at {reported['Name']}")
        try:
            yield from inside.examine(backend, settings.processes)
            yield from _means(backend)
        except (InfrastructureError, Ended) as error:
            yield Layer("a sandbox, and a grader in it", False, str(error), fix=_CONTAINER)
        yield _gvisor(settings, reported["Runtimes"])


def _means(backend: Docker) -> Iterator[Layer]:
    sandbox = backend.start()
    try:
        sandbox.allow_memory(64)
        over = "a socket that is mounted in" if sandbox.takes_descriptors else "the engine's stream"
        yield Layer("a socket to the guest", sandbox.takes_descriptors, over, needed=False, fix=_SOCKET)
        seen = (
            "a bound was written" if sandbox.bounds_memory else "they are not written from here: the engine was asked"
        )
        yield Layer("control groups of containers", sandbox.bounds_memory, seen, needed=False, fix=_GROUPS)
    finally:
        sandbox.end()
    reported = backend.information
    limits = bool(reported.get("CpuCfsQuota"))
    yield Layer("a bound on processors", limits, f"the engine says {limits}", needed=False, fix=_CPUS)
    options = " ".join(reported.get("SecurityOptions") or [])
    yield Layer("AppArmor", "name=apparmor" in options, options, needed=False, fix="Not needed: a layer more.")
    mapped = "name=userns" in options or "name=rootless" in options
    yield Layer("user namespaces of containers", mapped, options, needed=False, fix=_MAPPED)


def _gvisor(settings: SandboxSettings, runtimes: dict[str, object]) -> Layer:
    name = "gVisor"
    if "runsc" not in runtimes:
        return Layer(name, False, f"the engine's runtimes are {', '.join(runtimes)}", needed=False, fix=_GVISOR)
    try:
        with closing(Docker(settings.model_copy(update={"docker_runtime": "runsc"}))) as backend:
            list(inside.examine(backend, settings.processes))
    except (IsolationUnavailable, InfrastructureError, Ended) as error:
        return Layer(name, False, f"runsc is there, and graded nothing: {error}", needed=False, fix=_GVISOR)
    return Layer(name, True, "a sandbox of runsc graded", needed=False)
