"""`gradebox serve`: starts the processes of the service, monitors them, and stops them."""

import http.client
import ipaddress
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from pydantic import ValidationError

from gradebox.discovery import DEFAULT_URL, Note, write_note
from gradebox.errors import CannotServe
from gradebox.key_file import KEY_FILE
from gradebox.service import server_programs, sign_in
from gradebox.service.console import Console
from gradebox.service.data_folder import DataFolder, hold
from gradebox.service.logs import LogSettings
from gradebox.service.machine_memory import memory_bytes
from gradebox.service.models import SECRETS, Served, register
from gradebox.service.process import ServiceProcess
from gradebox.service.redis import redis_answers, redis_is_occupied, redis_process, redis_url
from gradebox.service.settings_error import fault_of
from gradebox.service.tail import Tail

READY_S = 60.0
TICK_S = 0.05  # the polling interval while the service starts or stops, since a user waits
WATCH_S = 0.2  # the polling interval while it runs: each poll costs an idle machine CPU time
KILL_S = 2.0  # processes are killed this long after their time to stop
# Exit codes: no safe sandbox on this machine; the stored data was written by a newer gradebox; a wrong setting.
FINAL = {3, 4, 5}
DEATHS_BEFORE_READY = 3


@dataclass(frozen=True)
class ServeOptions:
    """The options of `gradebox serve`.

    Attributes:
        port: 0 selects a free port.
        workers: 0 starts one for each usable core.
        stop_s: how many seconds running requests and chunks may take when the service stops.
    """

    host: str
    port: int
    data_dir: Path
    workers: int
    backend: str
    redis_url: str | None
    stop_s: float = 8.0
    registered: Sequence[Served] = ()


class Signals:
    """Counts the signals to stop: the first stops the service gracefully, the second at once."""

    def __init__(self) -> None:
        self.count = 0
        self._woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
                signal.signal(number, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1

    def wait(self, seconds: float) -> None:
        """Sleeps until the time is over or a signal arrives. A signal since the last call also ends it."""
        if select.select([self._woken], [], [], seconds)[0]:
            os.read(self._woken, 4096)


def serve(options: ServeOptions) -> None:
    """Runs the service until it receives a signal to stop.

    Raises:
        CannotServe: a resource that the service needs is missing or in use.
    """
    os.umask(0o077)  # the processes inherit it: only this user can access their files
    signals = Signals()
    settings = _log_settings()
    console = Console(settings)
    console.report("starting")
    with hold(options.data_dir) as folder, _listen(options.host, options.port) as listener:
        port = listener.getsockname()[1]
        redis = [redis_process(folder)] if options.redis_url is None else []
        servers = _servers(options, folder, listener)
        if options.registered:
            folder.registering.touch()
        else:
            folder.registering.unlink(missing_ok=True)  # of a start that failed
        try:
            console.follow(_tails([*redis, *servers], folder, settings))
            start = partial(
                _start, occupied=lambda: bool(redis) and redis_is_occupied(folder), signals=signals, console=console
            )
            start(redis, lambda: redis_answers(folder))
            start(servers, lambda: _ready(options.host, port), needs=redis)
            if not signals.count:
                register(options.registered, _url(options.host, port), folder.path)
                folder.registering.unlink(missing_ok=True)
                with _announced(Note(_url(options.host, port), folder.path), port):
                    console.show(_good_to_know(_url(options.host, port), folder.path, len(servers) - 2))
                    _watch([*redis, *servers], signals, console)
            console.report("stopping: unfinished chunks are kept for the next start")
        finally:
            api, workers = servers[:1], servers[1:]
            for group in (workers, api, redis):
                _stop(group, signals, console)
            console.look()
        console.report("stopped")


def _tails(processes: Sequence[ServiceProcess], folder: DataFolder, settings: LogSettings) -> list[Tail]:
    """The readers of the logs. Each process has a log and a rotated one; all together may take `log_mb` MiB."""
    folder.forget_logs(but=[process.log for process in processes])
    most_bytes = settings.log_mb * 1024 * 1024 // (2 * len(processes))
    return [Tail(process.log, most_bytes) for process in processes]


def _servers(options: ServeOptions, folder: DataFolder, listener: socket.socket) -> list[ServiceProcess]:
    folder.forget_metrics()
    one_user = ipaddress.ip_address(listener.getsockname()[0]).is_loopback
    environment = server_programs.environment(
        {
            "redis_url": options.redis_url or redis_url(folder),
            "data_dir": folder.path,
            "backend": options.backend,
            "stop_s": options.stop_s,
            "socket_fd": listener.fileno(),
            "supervised": os.getpid(),
            "log_format": "json",  # this process parses the logs
            "metrics_dir": folder.metrics,
            "asking_file": folder.asking,
            "registering_file": folder.registering,
            "metrics_port": 0,  # the API serves the workers' metrics
            "environments": os.environ.get("GRADEBOX_ENVIRONMENTS", "on"),  # this machine's user is its operator
            "model_hosts": os.environ.get("GRADEBOX_MODEL_HOSTS", "*"),
            # Other users of the service must not reach, through it, addresses that only this machine can reach.
            "model_private": os.environ.get("GRADEBOX_MODEL_PRIVATE", "on" if one_user else "off"),
        }
    )
    environment = {name: value for name, value in environment.items() if not name.startswith(SECRETS)}
    stop_s = options.stop_s + KILL_S
    api = ServiceProcess(
        "api", server_programs.command("api"), environment, folder.log("api"), stop_s, pass_fds=(listener.fileno(),)
    )
    number = options.workers or len(os.sched_getaffinity(0))
    environment = {"GRADEBOX_SANDBOXES_MEMORY_MB": str(_worker_memory_mb(number + 1)), **environment}
    workers = [_worker(f"worker-{one}", environment, folder, stop_s) for one in range(1, number + 1)]
    # The worker for batches whose graders ask starts with the first of these batches. It waits for models most of the
    # time, so that one worker without warm sandboxes is enough.
    asking = {**environment, "GRADEBOX_QUEUE": "asking", "GRADEBOX_WARM_SANDBOXES": "0"}
    return [api, *workers, _worker("asking-worker", asking, folder, stop_s, wanted=folder.asking)]


def _worker(
    name: str, environment: dict[str, str], folder: DataFolder, stop_s: float, wanted: Path | None = None
) -> ServiceProcess:
    own = {**environment, "GRADEBOX_METRICS_FILE": str(folder.metrics / f"{name}.prom")}
    return ServiceProcess(name, server_programs.command("worker"), own, folder.log(name), stop_s, wanted=wanted)


def _worker_memory_mb(workers: int) -> int:
    """MiB for the sandboxes of one worker: its share of half of all memory. The API's sandboxes may use the rest."""
    return max(256, memory_bytes() // 2**20 // 2 // workers)


def _start(
    processes: Sequence[ServiceProcess],
    ready: Callable[[], bool],
    *,
    needs: Sequence[ServiceProcess] = (),
    occupied: Callable[[], bool],
    signals: Signals,
    console: Console,
) -> None:
    """Starts the processes, and returns when they are ready or a signal has arrived. Those that they need run already,
    and are started again if they die.

    The timeout does not run while Redis is `occupied`: after a failed start, Redis would repeat that work at the next.

    Raises:
        CannotServe: a process cannot start, or is not ready within `READY_S`.
    """
    if not processes:
        return
    for process in processes:
        process.start()
    deadline, reported = time.monotonic() + READY_S, None
    while not signals.count and not ready():
        for process in (*needs, *processes):
            _raise_if_failed(process)
            _tend(process, console)
        if occupied():
            deadline = time.monotonic() + READY_S
        warning = next(filter(None, (process.warning() for process in processes)), None)
        if warning is not None and warning != reported:
            console.warn(f"not ready yet: {warning}")
            reported = warning
        if time.monotonic() > deadline:
            names = ", ".join(process.name for process in processes)
            why = warning or processes[0].exit_reason()
            raise CannotServe(f"{names} did not become ready within {READY_S:g} s; {why}")
        time.sleep(TICK_S)


def _raise_if_failed(process: ServiceProcess) -> None:
    if process.exit_code in FINAL:
        raise CannotServe(process.exit_reason())
    if process.exit_code is not None and process.deaths + 1 >= DEATHS_BEFORE_READY:
        raise CannotServe(f"{process.name} does not start (see {process.log}):\n{process.output()}")


def _watch(processes: Sequence[ServiceProcess], signals: Signals, console: Console) -> None:
    while not signals.count:
        for process in processes:
            _tend(process, console)
        console.look()
        signals.wait(WATCH_S)


def _stop(processes: Sequence[ServiceProcess], signals: Signals, console: Console) -> None:
    """Stops the processes; kills those that take too long, and all of them on a second signal."""
    for process in processes:
        process.ask_to_stop()
    started = time.monotonic()
    while any(process.running for process in processes) and signals.count < 2:
        late = [process for process in processes if process.running and time.monotonic() > started + process.stop_s]
        for process in late:
            console.warn(f"{process.name} did not stop within {process.stop_s:g} s and was killed")
            process.kill()
        time.sleep(TICK_S)
    for process in processes:
        process.kill()


@contextmanager
def _announced(note: Note, port: int) -> Iterator[None]:
    file = write_note(port, note)
    print(f"gradebox is ready at {note.url} (data in {note.data_dir})", flush=True)  # noqa: T201  # the one line it prints
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _listen(host: str, port: int) -> socket.socket:
    """The listening socket of the API. It stays open if the API dies, so that clients wait and are not refused.

    Raises:
        CannotServe: the address is in use, or does not belong to this machine.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        advice = "stop what listens there, or choose another with --port (0 takes a free one) or --host"
        raise CannotServe(f"cannot listen on {host}:{port} ({error.strerror}): {advice}") from error


def _ready(host: str, port: int) -> bool:
    """Whether the API can work. While it is `starting`, others wait until this process has registered the models."""
    connection = http.client.HTTPConnection(_reachable(host), port, timeout=0.5)
    try:
        connection.request("GET", "/readyz")
        return json.loads(connection.getresponse().read())["status"] in ("up", "starting")
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()


def _url(host: str, port: int) -> str:
    host = _reachable(host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # nothing is bound here


def _good_to_know(url: str, data_dir: Path, workers: int) -> list[tuple[str, str]]:
    elsewhere = [] if url == DEFAULT_URL else [("clients", f"export GRADEBOX_URL={url}")]
    pages = sign_in.link(url, data_dir)
    return [
        *elsewhere,
        *([("pages", f"{pages} (signs you in, once)")] if pages else []),
        ("API key", f"in {data_dir / KEY_FILE}; clients on this machine find it by themselves"),
        ("HTTP", f"{url}/docs"),
        ("metrics", f"{url}/metrics"),
        ("logs", str(data_dir / "logs")),
        ("workers", str(workers)),
        ("to stop", "Ctrl-C"),
    ]


def _tend(process: ServiceProcess, console: Console) -> None:
    if reported := process.tend():
        console.warn(reported)


def _log_settings() -> LogSettings:
    try:
        return LogSettings()
    except ValidationError as error:
        raise CannotServe(fault_of(error)) from error
