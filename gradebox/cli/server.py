"""`gradebox serve`, its roles alone (`api`, `worker`), `doctor` and `selftest`"""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

_CATEGORIES = "syntax, module, execution, return, resource, escape, calls, cross, channel, asking, reuse"
Backend = Literal["auto", "bubblewrap", "docker"]
DataDir = Annotated[
    Path | None, typer.Option(file_okay=False, help="The data folder. [GRADEBOX_DATA_DIR, or ~/.local/share/gradebox]")
]
# Deployments run one role alone and mostly set environment variables, which apply unless the option is given.
RoleBackend = Annotated[
    Backend | None, typer.Option("--backend", help="The sandbox backend. [GRADEBOX_BACKEND, or auto]")
]
RoleRedisUrl = Annotated[str | None, typer.Option("--redis-url", help="The Redis to use. [GRADEBOX_REDIS_URL]")]


def _setting(name: str, text: str, least: int | None = None, most: int | None = None) -> Any:
    """An option that is read from the environment if it is not given."""
    return typer.Option(envvar=f"GRADEBOX_{name.upper()}", min=least, max=most, help=text)


def serve(
    host: Annotated[str, _setting("host", "The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, _setting("port", "The port to listen on; 0 takes a free one.", 0, 65535)] = 8000,
    data_dir: DataDir = None,
    workers: Annotated[int, _setting("workers", "Number of workers; 0 starts one for each usable core.", 0)] = 0,
    backend: Annotated[Backend, _setting("backend", "The sandbox backend; auto takes one that is safe here.")] = "auto",
    redis_url: Annotated[str | None, _setting("redis_url", "The Redis to use instead of the embedded one.")] = None,
    stop_s: Annotated[float, _setting("stop_s", "Seconds for running work to finish when the service stops.", 0)] = 8.0,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=NAME@BASE_URL",
            help="A model of project `default`; its API key is read from GRADEBOX_MODEL_KEY_ plus KEY in capitals, "
            "such as GRADEBOX_MODEL_KEY_SMALL_JUDGE for small-judge. May be repeated.",
        ),
    ] = None,
    endpoint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=URL",
            help="An endpoint of project `default`; its API key is read from GRADEBOX_ENDPOINT_KEY_ plus KEY in "
            "capitals. May be repeated.",
        ),
    ] = None,
) -> None:
    """Runs the whole service on this machine: the API, workers and a Redis."""
    from gradebox.discovery import data_dir as usual_data_dir
    from gradebox.service import server_programs

    server_programs.environment({})  # reports missing packages before they are imported
    from gradebox.service.models import read_endpoint, read_model, refuse_same_key
    from gradebox.service.serve import ServeOptions
    from gradebox.service.serve import serve as run

    registered = [read_model(text, os.environ) for text in model or []]
    registered += [read_endpoint(text, os.environ) for text in endpoint or []]
    refuse_same_key(registered)
    run(ServeOptions(host, port, data_dir or usual_data_dir(), workers, backend, redis_url, stop_s, registered))


def api(
    host: Annotated[str | None, typer.Option(help="The address to listen on. [GRADEBOX_HOST, or 127.0.0.1]")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The port to listen on. [GRADEBOX_PORT, or 8000]")
    ] = None,
    data_dir: DataDir = None,
    backend: RoleBackend = None,
    redis_url: RoleRedisUrl = None,
) -> None:
    """Runs the API alone, for deployments."""
    _become("api", host=host, port=port, **_common(data_dir, backend, redis_url))


def worker(
    data_dir: DataDir = None,
    backend: RoleBackend = None,
    redis_url: RoleRedisUrl = None,
    queue: Annotated[
        Literal["plain", "asking"] | None,
        typer.Option(
            help="The batches to score: asking for those with graders that ask, plain for the others. "
            "[GRADEBOX_QUEUE, or plain]"
        ),
    ] = None,
) -> None:
    """Runs one worker alone, for deployments."""
    _become("worker", queue=queue, **_common(data_dir, backend, redis_url))


def doctor(
    backend: RoleBackend = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Shows which layers of isolation are in force here, and how to get the others. Exits 1 when no backend is safe."""
    _become("sandbox.doctor", *["--json"] * json, backend=backend)


def selftest(
    backend: RoleBackend = None,
    category: Annotated[
        list[str] | None, typer.Option(help=f"Only graders of this kind: {_CATEGORIES}. May be repeated.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Runs hundreds of hostile graders on this machine. Exits 1 when one gets through, 2 when none could be run."""
    only = [argument for name in category or [] for argument in ("--category", name)]
    _become("models.selftest", *only, *["--json"] * json, backend=backend)


def _common(data_dir: Path | None, backend: Backend | None, redis_url: str | None) -> dict[str, str | None]:
    from gradebox.discovery import data_dir as usual_data_dir

    folder = (data_dir or usual_data_dir()).absolute()
    return {"data_dir": str(folder), "backend": backend, "redis_url": redis_url}


def _become(module: str, *arguments: str, **settings: object) -> None:
    from gradebox.service.server_programs import become

    become(module, arguments, settings)
