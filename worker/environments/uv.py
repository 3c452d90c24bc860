"""Runs uv, which resolves and downloads wheels, checks their hashes and unpacks them. It runs no code of a package.

uv gets a separate environment. Of the service's environment, it receives only the variables that name a package index
or how to reach one.
"""

import errno
import os
import re
import resource
import shutil
import signal
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
from uv import find_uv_bin

from gradebox.schemas import LockedPackage
from runtime.supervised import killed_with_parent
from sandbox import image
from sandbox.limits import ENVIRONMENT_FILES, MIB
from worker.environments.settings import EnvironmentSettings

MOST_PACKAGES = 100
_LOOK_S = 0.2
_PATIENCE_S = 600.0  # for all runs of one build together
_CPU_S = 600
_TRIES = 2  # of a run that is ended by a signal below: the OOM killer's, or of what stops a service, to all processes
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)
_OUTPUT_BYTES = 64 * 1024
_PRINTED = 3000  # characters of it that are kept
_LOCK_BYTES = 1024 * 1024
_LARGEST = 3  # packages that are named if all together are too large
_MEMORY_BYTES = 4 << 30
# Variables of the service's environment that tell how to reach any index, and those that name one.
_REACHES = (
    "HOME", "NETRC", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy", "UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES",
)  # fmt: skip
_INDEX = (
    *_REACHES, "UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS",
    "UV_INDEX_STRATEGY", "UV_OFFLINE", "UV_CONFIG_FILE", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS", "UV_INSECURE_HOST",
    "UV_TORCH_BACKEND", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS",
)  # fmt: skip
_OF_INDEX = re.compile(r"UV_INDEX_[A-Z0-9_]+_(USERNAME|PASSWORD)")
_SILENCE = {"UV_HTTP_TIMEOUT": "20", "UV_HTTP_RETRIES": "2"}  # seconds without a byte: a build ends after about 60
_LIKE_PIP = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_CERT": "SSL_CERT_FILE",
}
_LONGEST_FOLDER = 500  # characters below uv's folder: deeply nested folders would overflow Python's stack
_TRUE = {"1", "on", "t", "true", "y", "yes"}  # the values that pip reads as true
_SHA256 = re.compile("[0-9a-f]{64}")
_FILE_TOO_LARGE = f"(os error {errno.EFBIG})"  # uv met the limit of one file's size
_PATH = re.compile(r"(?<![\w/])/[^\s`'\"):,]+")  # a path of this machine, such as a folder in PIP_FIND_LINKS
_URL = re.compile(r"\b(?:https?|file)://[^\s`'\")]+")

_log = structlog.get_logger(__name__)

GoesOn = Callable[[], None]
"""Called a few times a second. Raises if the build is not wanted any more."""


class BuildFailed(Exception):
    """A build cannot be made. The message is for the user who requested it."""


class Uv:
    """uv in a separate folder, which is deleted with everything that was downloaded."""

    def __init__(self, folder: Path, settings: EnvironmentSettings, most_mb: int) -> None:
        self._folder = folder
        self._output = folder / "output"
        self._most_mb = most_mb
        self._until = time.monotonic() + _PATIENCE_S
        self._environment = (
            _SILENCE
            | environment_of(os.environ, settings)
            | {
                "PATH": os.defpath,
                "UV_CACHE_DIR": str(folder / "cache"),
                "TMPDIR": str(folder),
                "UV_PYTHON_DOWNLOADS": "never",
                "UV_LINK_MODE": "hardlink",
                "UV_CONCURRENT_INSTALLS": "1",  # see `install`
                "UV_NO_PROGRESS": "1",
                "NO_COLOR": "1",
            }
        )
        self._shared = ["--only-binary", ":all:", "--python", str(image.interpreter())]
        if not settings.environments_index and os.environ.get("PIP_NO_INDEX", "").lower() in _TRUE:
            self._shared.append("--no-index")  # uv has no variable for it, and would use the public index
        self.log = ""  # what uv printed while it resolved, such as warnings

    def resolve(self, packages: Sequence[str], goes_on: GoesOn) -> list[LockedPackage]:
        """Resolves packages to a lock: all that must be installed, each with the hashes of its wheels.

        Raises:
            BuildFailed: the packages are not available as wheels, or are too many or too large.
        """
        asked, locked = self._folder / "requirements.in", self._folder / "pylock.toml"
        asked.write_text("".join(f"{one}\n" for one in packages))
        self._run(
            "pip", "compile", "--format", "pylock.toml", "--output-file", str(locked), str(asked), goes_on=goes_on
        )
        self.log = self._printed()[:_PRINTED]
        if locked.stat().st_size > _LOCK_BYTES:
            raise BuildFailed(f"it comes to too many packages: an environment may have {MOST_PACKAGES}")
        found = tomllib.loads(locked.read_text()).get("packages", [])
        if len(found) > MOST_PACKAGES:
            raise BuildFailed(f"it comes to {len(found)} packages, and an environment may have {MOST_PACKAGES}")
        self._check_wheels(found)
        return [self._package(one) for one in found]

    def _check_wheels(self, found: Sequence[Mapping[str, Any]]) -> None:
        """Compares the wheels' sizes with the limit, because several GB would be downloaded before the limit is met."""
        sizes = {
            str(one["name"]): min((int(wheel.get("size", 0)) for wheel in one.get("wheels", [])), default=0)
            for one in found
        }
        if sum(sizes.values()) <= self._most_mb * MIB:
            return
        largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:_LARGEST]
        named = ", ".join(f"{name} ({sizes[name] / MIB:.0f} MiB)" for name in largest)
        hint = ""
        if any(name.startswith("nvidia-") for name in sizes):
            hint = (
                "\nThe packages nvidia-* are for GPUs, which no sandbox has. If they come with torch, tell the "
                "service's operator: with UV_TORCH_BACKEND=cpu, environments get torch without them"
            )
        raise BuildFailed(
            f"its wheels have {sum(sizes.values()) / MIB:.0f} MiB, so it is larger than {self._too_large()}. "
            f"The largest are {named}{hint}"
        )

    def _package(self, found: Mapping[str, Any]) -> LockedPackage:
        wheels = found.get("wheels", [])
        size = max((int(wheel.get("size", 0)) for wheel in wheels), default=0)
        if size > self._most_mb * MIB:
            raise BuildFailed(f"{found['name']} {found['version']} is larger than {self._too_large()}")
        hashes = sorted({str(wheel.get("hashes", {}).get("sha256", "")) for wheel in wheels})
        if not hashes or not all(map(_SHA256.fullmatch, hashes)):
            raise BuildFailed(
                f"{found['name']} {found['version']} has no wheel with a SHA-256 for Python on this machine: "
                "only packages with wheels can be in an environment"
            )
        return LockedPackage(name=found["name"], version=found["version"], sha256=hashes)

    def install(self, lock: Sequence[LockedPackage], target: Path, goes_on: GoesOn) -> None:
        """Downloads these wheels and no others, and unpacks them into a folder.

        Of a file that several wheels have, the one that uv writes last stays. It writes them as they arrive, but those
        that it has already in a fixed order: so it installs twice, and equal packages have equal contents.

        Raises:
            BuildFailed: a wheel is not available or does not match its hash, or the wheels are too large.
        """
        locked = self._folder / "lock.txt"
        locked.write_text("".join(map(_locked, lock)))
        options = ("--quiet", "--no-deps", "--require-hashes", "--target", str(target), "--requirements", str(locked))
        self._run("pip", "install", *options, goes_on=goes_on, watched=target)
        _empty(target)
        self._run("pip", "install", *options, goes_on=goes_on, watched=target)

    def _run(self, *arguments: str, goes_on: GoesOn, watched: Path | None = None) -> None:
        for _ in range(_TRIES):
            status = self._run_once(arguments, goes_on, watched)
            if status not in _FROM_OUTSIDE:
                break
            goes_on()
            if watched is not None:
                _empty(watched)  # uv takes half of a package for a whole one
        if status != 0:
            raise BuildFailed(self._failure_message(status))
        self._check(watched)  # includes the files since the last check

    def _run_once(self, arguments: Sequence[str], goes_on: GoesOn, watched: Path | None) -> int:
        with self._output.open("wb") as file:
            process = subprocess.Popen(
                # A killed worker would leave uv downloading. The thread of the builder, which starts uv, outlives it.
                killed_with_parent([find_uv_bin(), *arguments, *self._shared]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # the lock, which is in a file too
                stderr=file,
                env=self._environment,
                cwd="/",  # uv reads settings from the working folder and the folders above it
                start_new_session=True,
            )
        try:
            self._bound(process.pid)
            while (status := _status(process)) is None:
                goes_on()
                self._check(watched)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)  # with its child processes
                process.wait()
        return status

    def _bound(self, pid: int) -> None:
        for what, most in (
            (resource.RLIMIT_FSIZE, self._most_mb * MIB),
            (resource.RLIMIT_CPU, _CPU_S),
            (resource.RLIMIT_DATA, _MEMORY_BYTES),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.prlimit(pid, what, (most, most))

    def _check(self, watched: Path | None) -> None:
        if time.monotonic() > self._until:
            raise BuildFailed(f"it was not downloaded within {_PATIENCE_S:g} s: ask for less, or try again later")
        size, files = _measure(self._folder)
        if watched is not None and not watched.is_relative_to(self._folder):
            more, number = _measure(watched)
            size, files = size + more, files + number
        # uv unpacks wheels into the cache and links the files into the target, so files may be counted twice.
        if size > 3 * self._most_mb * MIB or files > 3 * ENVIRONMENT_FILES:
            raise BuildFailed(
                f"it is larger than {self._too_large()}, or has more than {ENVIRONMENT_FILES} files and folders"
            )

    def _too_large(self) -> str:
        return f"the {self._most_mb} MiB that an environment may take (GRADEBOX_ENVIRONMENT_MB)"

    def _said(self) -> str:
        with self._output.open("rb") as file:
            return file.read(_OUTPUT_BYTES).decode("utf-8", "replace").strip()

    def _printed(self) -> str:
        """What uv printed at its last run, without URLs and paths of this machine."""
        said = self._said()
        return _PATH.sub("(a path)", _URL.sub("(the package index)", said).replace(str(self._folder), "(folder)"))

    def _failure_message(self, status: int) -> str:
        told = self._printed()
        if _FILE_TOO_LARGE in told:
            return f"it is larger than {self._too_large()}"
        if not told:
            return f"uv ended with {status} and printed nothing: see the worker's log, or try again"
        hint = ""
        if "timed out" in told:
            # In its URLs, uv hides passwords.
            _log.warning("a package index did not answer", printed=self._said()[:_PRINTED])
            hint = (
                "\nThe package index did not answer: update the environment to try again. If this does not help, tell "
                "the service's operator: the worker's log names the index"
            )
        elif "no usable wheels" in told or "no wheels" in told or "building" in told.lower():
            hint = (
                "\nOnly packages that have wheels for Python on this machine can be in an environment. Others can be "
                "its data: `pip install --target packages NAME`, then an update with `--data packages` and without "
                "NAME"
            )
        return f"{told[:_PRINTED]}{hint}"


def environment_of(service: Mapping[str, str], settings: EnvironmentSettings) -> dict[str, str]:
    """The variables that configure uv's indexes: from the operator's setting, else from the service's environment."""
    if settings.environments_index:
        kept = {name: service[name] for name in _REACHES if name in service}
        return kept | {"UV_DEFAULT_INDEX": settings.environments_index, "UV_NO_CONFIG": "1"}
    found = {uv: service[pip] for pip, uv in _LIKE_PIP.items() if pip in service}
    if "UV_FIND_LINKS" in found:  # pip separates several by spaces, uv by commas
        found["UV_FIND_LINKS"] = ",".join(found["UV_FIND_LINKS"].split())
    own = {name: value for name, value in service.items() if name in _INDEX or _OF_INDEX.fullmatch(name)}
    return found | own


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _locked(package: LockedPackage) -> str:
    hashes = "".join(f" --hash=sha256:{sha256}" for sha256 in package.sha256)
    return f"{package.name}=={package.version}{hashes}\n"


def _status(process: "subprocess.Popen[bytes]") -> int | None:
    try:
        return process.wait(_LOOK_S)
    except subprocess.TimeoutExpired:
        return None


def _measure(folder: Path) -> tuple[int, int]:
    """The size in bytes, and the number of files and folders, below a folder. The size of a file with several links
    counts once.
    """
    files = 0
    sizes: dict[int, int] = {}
    for entry in _entries(str(folder)):
        files += 1
        if not entry.is_dir(follow_symlinks=False):
            with suppress(FileNotFoundError):  # uv has moved or removed it
                status = entry.stat(follow_symlinks=False)
                sizes[status.st_ino] = status.st_size
        elif len(entry.path) - len(str(folder)) > _LONGEST_FOLDER:
            raise BuildFailed(f"a package holds folders of more than {_LONGEST_FOLDER} characters")
    return sum(sizes.values()), files


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    waiting = [folder]
    while waiting:
        with suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                yield entry
