"""Where the server's rooms (api, worker, sandbox, …) lie, and how one of their programs is started.

In a checkout they lie next to `gradebox/`; a wheel carries them inside it, so that no name such as `api` gets into a
user's site-packages. Either way they are importable only to the processes that are started here.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import gradebox
from gradebox.errors import CannotServe

_NEEDED = (
    "aiohttp",
    "cryptography",
    "fastapi",
    "fsspec",
    "pydantic_settings",
    "redis",
    "rq",
    "scipy",
    "structlog",
    "uv",
    "uvicorn",
)


def command(module: str) -> list[str]:
    """Starts a program of the rooms: `api`, `worker` or `sandbox.doctor`."""
    # -P keeps the working folder off the path: a user's own api/ must not be taken for ours.
    return [sys.executable, "-P", "-m", module]


def environment(settings: Mapping[str, object]) -> dict[str, str]:
    """This process's environment with the rooms on the path and each setting that is not None as GRADEBOX_*.

    Raises:
        CannotServe: the server's part is not installed.
    """
    path = [str(_folder()), *filter(None, [os.environ.get("PYTHONPATH")])]
    named = {f"GRADEBOX_{name.upper()}": str(value) for name, value in settings.items() if value is not None}
    # By default each of some threads gets an arena of its own from malloc, and keeps a megabyte or two in it.
    return {"MALLOC_ARENA_MAX": "2", **os.environ, **named, "PYTHONPATH": os.pathsep.join(path)}


def become(module: str, arguments: Sequence[str], settings: Mapping[str, object]) -> None:
    """Turns this process into a program of the rooms. Raises CannotServe."""
    os.execve(sys.executable, [*command(module), *arguments], environment(settings))  # noqa: S606  # without a shell, as it should be


def _folder() -> Path:
    package = Path(gradebox.__file__).resolve().parent
    folder = next((room for room in (package.parent, package / "_server") if _holds_rooms(room)), None)
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if folder is None or missing:
        what = f" ({', '.join(missing)} missing)" if missing else ""
        raise CannotServe(f"the server's part is not installed{what}: pip install 'gradebox[server]'")
    return folder


def _holds_rooms(folder: Path) -> bool:
    return all((folder / room / "__init__.py").is_file() for room in ("api", "worker", "sandbox", "storage", "runtime"))
