"""Builds the root file system of the sandboxes.

It holds a copy of the interpreter with its standard library, the time zones, the guest, and what the guest imports:
msgspec and the template engine of judges.

It is a copy instead of bind mounts of the host's folders, for three reasons. It holds nothing else, so that nothing of
the host can be read by mistake, not even the name of a home folder. Other users can reach it even if the interpreter
lies in root's home. It is one mount instead of thirty.
Copies are made once and are named by a hash of what they are made from.
"""

import compileall
import hashlib
import importlib.util
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sandbox import shared_folders
from sandbox.errors import IsolationUnavailable
from sandbox.guest.child import thread_decoder
from sandbox.guest.template.packages import DATA, PLACE

GUEST = Path("/usr/lib/gradebox")  # the guest's code, inside a sandbox
_PROGRAMS = GUEST / ".programs"  # what programs of graders import; no module, because graders could import that
PACKAGES = Path(PLACE)  # the packages of an environment, inside a sandbox; empty if there is none
PYTHON = Path("/usr/bin/python3")
ZONES = Path("/usr/lib/zoneinfo")  # another folder that `zoneinfo` searches; a sandbox has no /usr/share
_PREFIX = Path("/usr")
_ROOMS = Path(__file__).parent.parent
_COPY = re.compile(r"(python|guest)-[0-9a-f]{16}")
_RANDOM_BYTES = 4096  # of a file in place of /dev/urandom. torch reads eight at its import; each open starts anew
_UNUSED_S = 7 * 24 * 3600.0  # a copy that no process has used for this long is removed: it can be made again
_MOST_REMOVED = 10  # copies at one start, which waits for it
_LEFT_OUT = {
    "site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3", "ensurepip", "tkinter",
    "turtledemo", "turtle.py", "pydoc_data", "EXTERNALLY-MANAGED", "sitecustomize.py", "usercustomize.py",
}  # fmt: skip
_LEFT_OUT_PREFIXES = ("_test", "_tkinter", "_xx", "config-", "xxlimited")
# What wheels may expect on Linux (PEP 600), including the C library's separate parts: numpy needs the first two.
_FOR_WHEELS = (
    "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "librt.so.1", "libdl.so.2", "libpthread.so.0", "libutil.so.1",
    "libz.so.1",
)  # fmt: skip
_CACHED_LINE = re.compile(r"^\t(\S+) \(([^)]*)\) => (/\S+)$", re.MULTILINE)
_LIBRARY_LINE = re.compile(r"(?:=> )?(/\S+) \(0x")
# Packages of the guest, and their names inside a sandbox. Graders and the packages of environments may use the first
# names, and the guest imports some of its modules only after the grader has run.
_INSIDE = {
    "sandbox.guest": "gradebox._guest",
    "validators": "gradebox._validators",
    "dotpromptz_handlebars": "gradebox._handlebars",
}
_in_use = ExitStack()  # the locks of the copies that this process uses: it holds them until it ends
_IMPORT = re.compile(rf"^(\s*(?:from|import) )({'|'.join(map(re.escape, _INSIDE))})\b", re.MULTILINE)


@dataclass(frozen=True)
class Image:
    """Two folders to be mounted read-only."""

    root: Path
    guest: Path


def build(folder: Path) -> Image:
    """Makes the image below `folder`, or returns the existing one.

    Raises:
        IsolationUnavailable: the folder cannot be written, other users could change its content, or a required package
            is not installed.
    """
    try:
        shared_folders.make_folder(folder)
        shared_folders.check_owner(folder)
        root = _used(folder / f"python-{_interpreter_hash()}", _copy_interpreter)
        guest = _used(folder / f"guest-{_guest_hash()}", _copy_guest)
    except OSError as error:
        raise IsolationUnavailable(
            f"the image of the sandbox cannot be made in {folder}: {error}. "
            "Name a folder of your own with GRADEBOX_IMAGE_DIR."
        ) from error
    _remove_unused(folder)
    return Image(root, guest)


def _used(target: Path, make: Callable[[Path], None]) -> Path:
    """Returns the folder `target`, made once, which no process removes as long as this one lives."""
    while True:
        shared_folders.made_once(target, make)
        with suppress(FileNotFoundError):  # another process has just removed it
            _in_use.enter_context(shared_folders.in_use(target))
            with suppress(OSError):  # in a container, the folder may be read-only
                os.utime(target)
            return target


def _remove_unused(folder: Path) -> None:
    """Removes old copies that no process uses, and what killed processes left."""
    now = time.time()
    with suppress(OSError):  # in a container, the folder may be read-only
        old = [
            path
            for path in folder.iterdir()
            if (_COPY.fullmatch(path.name) and now - path.stat().st_mtime > _UNUSED_S)
            or (path.name.startswith(shared_folders.NEW) and now - path.stat().st_mtime > shared_folders.STALE_S)
        ]
        if old:
            with shared_folders.temporary_folder(folder, shared_folders.NEW) as aside:
                for path in old[:_MOST_REMOVED]:
                    shared_folders.set_aside(path, aside)


def interpreter() -> Path:
    """The path of the real interpreter, not of the link in a virtual environment."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def _library() -> Path:
    return Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix, "base": sys.base_prefix}))


def _decoder() -> Path:
    """The folder of the package msgspec, with which the guest reads usual threads."""
    return Path(str(msgspec.__file__)).parent


def _template_engine() -> Path:
    """The package that fills in the templates of judges. It is pure Python and is copied like the guest's modules."""
    lacking = "the template engine of judges is not there: install it with `pip install dotpromptz-handlebars`."
    return _installed("dotpromptz_handlebars", lacking)


def _zones() -> Path:
    """The time zones of the package tzdata. Its version is pinned, whereas the time zones of machines differ."""
    lacking = "the time zones of the sandbox are not there: install them with `pip install tzdata`."
    return _installed("tzdata", lacking) / "zoneinfo"


def _installed(package: str, lacking: str) -> Path:
    """The folder of a package. Raises IsolationUnavailable, with the message `lacking`, if it is not installed."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise IsolationUnavailable(lacking)
    return Path(found.origin).parent


def _interpreter_hash() -> str:
    told = [sys.version, str(sorted(_LEFT_OUT)), Path(__file__).read_text()]
    for path in (
        interpreter(),
        _library(),
        _library() / "lib-dynload",
        *_decoder().glob("*.so"),
        _zones().parent / "__init__.py",
        *_libraries_for_wheels(),
    ):
        status = path.stat()
        told.append(f"{path} {status.st_mtime_ns} {status.st_size}")
    return _short_hash("\n".join(told).encode())


def _guest_hash() -> str:
    files = [Path(__file__), *(path for path, _ in _guest_files())]
    return _short_hash(b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in files))


def _short_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _guest_files() -> list[tuple[Path, Path]]:
    """Each file of the guest, with its path below `GUEST`."""
    package = _gradebox_package()
    files = [(package / name, Path("gradebox") / name) for name in _SHOWN]
    for room in ("asks", "checks", "judges"):
        files += [(path, Path("gradebox") / room / path.name) for path in sorted((package / room).glob("*.py"))]
    folders = (_ROOMS / "sandbox" / "guest", _ROOMS / "validators", _template_engine())
    for folder, name in zip(folders, _INSIDE.values(), strict=True):
        inside = Path(*name.split("."))
        files += [(path, inside / path.relative_to(folder)) for path in sorted(folder.rglob("*.py"))]
    return files


# Modules of the guest that programs of graders have too: they need the standard library alone.
_FOR_PROGRAMS = (
    "child/after_import.py", "child/seeding.py", "kernel/standard_streams.py", "kernel/usual_limits.py",
    "template/managers.py", "template/start_methods.py",
)  # fmt: skip
# Modules of the package gradebox that graders see.
_SHOWN = (
    "__init__.py", "evaluators.py", "group_forms.py", "langfuse.py", "modules.py", "same_json.py", "score.py",
    "sync_call.py", "thread.py", "thread_forms.py",
)  # fmt: skip


def _gradebox_package() -> Path:
    import gradebox

    return Path(str(gradebox.__file__)).parent


def _copy_guest(target: Path) -> None:
    for source, place in _guest_files():
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        (target / place).write_text(_IMPORT.sub(_named_inside, source.read_text("utf-8")), "utf-8")
    (target / "adaptive_harmony.py").write_text(
        '"""So that graders written for Adaptive run unchanged."""\n\n'
        "from gradebox.thread import StringThread, StringTurn\n\n"
        '__all__ = ["StringThread", "StringTurn"]\n'
    )
    for name in _FOR_PROGRAMS:
        copy = target / _PROGRAMS.name / "_gradebox" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = (_ROOMS / "sandbox/guest" / name).read_text("utf-8")
        copy.write_text(text.replace("from sandbox.guest.", "from _gradebox."), "utf-8")
    (target / _PROGRAMS.name / "_gradebox/__init__.py").touch()  # otherwise a module of this name would come before it
    (target / _PROGRAMS.name / "sitecustomize.py").write_text(  # Python runs it at its start
        "from _gradebox.child.seeding import seed_at_import\n"
        "from _gradebox.kernel.standard_streams import open_by_name\n"
        "from _gradebox.kernel.usual_limits import accept_usual_limits\n"
        "from _gradebox.template.managers import connect_by_pairs\n"
        "from _gradebox.template.start_methods import fork_always\n\n"
        "open_by_name()\naccept_usual_limits()\nfork_always()\nconnect_by_pairs()\nseed_at_import()\n"
    )
    for program, module in (("start", "supervisor.main"), ("zygote", "zygote")):
        (target / program).write_text(  # no `.py`: graders could import it
            # Imported objects stay alive. With the garbage collector on, a sandbox would spend a tenth of its start on
            # collections. The import of ctypes makes a callback, for which libffi may write its code to a file. It
            # needs that file again for later callbacks, and graders do not have it. Where it cannot write, it makes
            # all callbacks in private memory.
            "import gc\nimport sys\nfrom resource import RLIMIT_FSIZE, getrlimit, setrlimit\n\ngc.disable()\n"
            f'sys.path.insert(0, "{GUEST}")\nfile_size = getrlimit(RLIMIT_FSIZE)\n'
            f"setrlimit(RLIMIT_FSIZE, (0, file_size[1]))\n\nfrom gradebox._guest.{module} import main\n\n"
            "setrlimit(RLIMIT_FSIZE, file_size)\nmain()\n"
        )
    compileall.compile_dir(target, quiet=1, stripdir=str(target), prependdir=str(GUEST))
    shared_folders.open_to_read(target)


def _named_inside(found: re.Match[str]) -> str:
    return found[1] + _INSIDE[found[2]]


def _copy_interpreter(target: Path) -> None:
    """Lays the interpreter out like a system installation: CPython finds its library relative to its executable."""
    executable, library = interpreter(), _library()
    inside = target / _PREFIX.relative_to("/") / "lib" / library.name
    shutil.copytree(
        library,
        inside,
        ignore=lambda folder, names: {
            name for name in names if name in _LEFT_OUT or name.startswith(_LEFT_OUT_PREFIXES)
        },
    )
    compileall.compile_dir(inside, quiet=2, stripdir=str(target), prependdir="/")
    programs = target / _PREFIX.relative_to("/") / "bin"
    programs.mkdir()
    shutil.copy2(executable, programs / "python3")
    (programs / "python").symlink_to("python3")
    (programs / library.name).symlink_to("python3")
    shutil.copytree(_zones(), target / ZONES.relative_to("/"), ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    decoder = target / thread_decoder.PLACE.lstrip("/") / "msgspec"
    shutil.copytree(_decoder(), decoder, ignore=shutil.ignore_patterns("*.pyi", "__pycache__"))
    compileall.compile_dir(decoder, quiet=1, stripdir=str(target), prependdir="/")
    for_wheels = _libraries_for_wheels()
    for needed in {*for_wheels, *_shared_libraries(executable, inside, *decoder.glob("*.so"), *for_wheels)}:
        _copy_library(needed, target)
    for_programs = target / site.getsitepackages([str(_PREFIX)])[-1].lstrip("/")
    for_programs.mkdir(parents=True)
    # So that programs of a grader have what makes limits and `multiprocessing` work, which no package may replace, and
    # the grader's packages.
    (for_programs / "environment.pth").write_text(f"{_PROGRAMS}\n{PACKAGES}\n{DATA}\n")
    for folder in ("tmp", "dev", "dev/shm", str(GUEST).lstrip("/"), str(PACKAGES).lstrip("/")):
        (target / folder).mkdir(parents=True, exist_ok=True)
    (target / "dev/null").touch()
    (target / "dev/urandom").write_bytes(hashlib.shake_256().digest(_RANDOM_BYTES))
    shared_folders.open_to_read(target)


def _libraries_for_wheels() -> list[Path]:
    """The libraries of `_FOR_WHEELS` that this system has, from the loader's list. The loader takes the first entry of
    a name.
    """
    ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if ldconfig is None:
        return []
    listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False, env={"LC_ALL": "C"})
    bits = "64" if sys.maxsize > 1 << 32 else ""
    found: dict[str, Path] = {}
    for name, kind, path in _CACHED_LINE.findall(listed.stdout):
        if name in _FOR_WHEELS and bits in kind:
            found.setdefault(name, Path(path))
    return [found[name] for name in _FOR_WHEELS if name in found]


def _shared_libraries(executable: Path, library: Path, *more: Path) -> set[Path]:
    """The libraries that the interpreter and the extension modules are linked with, at the loader's paths."""
    binaries = [*map(str, (executable, *more)), *map(str, (library / "lib-dynload").glob("*.so"))]
    listed = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False, env={"LC_ALL": "C"})
    return {Path(path) for path in _LIBRARY_LINE.findall(listed.stdout)}


def _copy_library(path: Path, target: Path) -> None:
    """Copies a library to the same path if it is a system path, otherwise to a default folder of the loader."""
    is_system = path.is_relative_to("/lib") or path.is_relative_to("/lib64") or path.is_relative_to("/usr")
    copy = target / (path.relative_to("/") if is_system else Path("usr/lib") / path.name)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, copy)


def main() -> None:
    """Makes the image in advance, in the folder of the settings."""
    from sandbox.settings import SandboxSettings

    build(SandboxSettings().image_dir)


if __name__ == "__main__":
    main()
