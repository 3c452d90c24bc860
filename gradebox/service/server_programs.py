"""Locates the server's rooms (the packages api, worker, sandbox, …), and starts their programs.

In a checkout they are next to `gradebox/`. A wheel has them inside `gradebox/`, so that it installs no package with a
name such as `api` into a user's site-packages. In both cases only the processes that are started here can import them.
"""

import os
import platform
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
    """The command of a program of the rooms, such as `api`, `worker` or `sandbox.doctor`."""
    # -P keeps the working folder off the path: a user's api/ there must not shadow ours.
    return [sys.executable, "-P", "-m", module]


def environment(settings: Mapping[str, object]) -> dict[str, str]:
    """This process's environment, with the rooms on the path and each setting that is not None as GRADEBOX_*.

    Raises:
        CannotServe: this machine is no Linux, or the server's packages are not installed.
    """
    if platform.system() != "Linux":
        raise CannotServe(
            f"this command needs Linux, and this is {platform.system() or 'another system'}: run it in a virtual "
            "machine, in WSL or in a container, or use the service of another machine, which GRADEBOX_URL names"
        )
    path = [str(_folder()), *filter(None, [os.environ.get("PYTHONPATH")])]
    named = {f"GRADEBOX_{name.upper()}": str(value) for name, value in settings.items() if value is not None}
    # By default malloc gives many threads a separate arena, which retains one or two megabytes.
    return {"MALLOC_ARENA_MAX": "2", **os.environ, **named, "PYTHONPATH": os.pathsep.join(path)}


def become(module: str, arguments: Sequence[str], settings: Mapping[str, object]) -> None:
    """Replaces this process by a program of the rooms. Raises CannotServe."""
    os.execve(sys.executable, [*command(module), *arguments], environment(settings))  # noqa: S606  # deliberately without a shell


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
