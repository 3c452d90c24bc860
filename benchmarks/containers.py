"""Containers to compare with: an almost empty image, with this machine's system mounted read-only.

So they run the interpreter that is measured, and need no registry.
"""

import io
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import docker
from docker.errors import DockerException
from docker.types import Mount
from llm_sandbox import SandboxSession

IMAGE = "gradebox-benchmark:empty"
PYTHON = str(Path(sys.executable).resolve())
_SYSTEM = tuple(map(Path, ("/usr", "/lib", "/lib32", "/lib64", "/bin")))
_WORK = "/sandbox"  # where llm-sandbox writes the code that it runs
_USERS = b"root:x:0:0::/:/bin/sh\n"  # llm-sandbox runs commands by the name of a user
_ENGINE_S = 20  # the time that an engine has to answer


def why_none() -> str:
    """Why there are no containers to compare with; empty if there are."""
    if shutil.which("docker") is None:
        return "Docker is not installed here"
    try:
        with closing(docker.DockerClient.from_env(timeout=_ENGINE_S)):
            return ""
    except DockerException:
        return "no Docker engine answers here"


@contextmanager
def image() -> Iterator[None]:
    """Imports IMAGE into the engine, and removes it when the block ends."""
    repository, _, tag = IMAGE.partition(":")
    search = f"ENV PATH={Path(PYTHON).parent}:/usr/bin:/bin"
    with closing(docker.DockerClient.from_env()) as client:
        client.api.import_image_from_data(_tar(), repository, tag, changes=[search, 'CMD ["sh"]'])
        try:
            yield
        finally:
            client.images.remove(IMAGE, force=True)


def _tar() -> bytes:
    """An archive of the links in this machine's root, two writable folders, and a name for the user."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for path in _SYSTEM:
            if path.is_symlink():
                tar.add(path, path.name)
        for name in ("tmp", _WORK.strip("/")):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(folder)
        users = tarfile.TarInfo("etc/passwd")
        users.size = len(_USERS)
        tar.addfile(users, io.BytesIO(_USERS))
    return made.getvalue()


def _mounts(files: Mapping[Path, str]) -> dict[str, str]:
    """The paths that are mounted read-only, and where."""
    folders = [path for path in _SYSTEM if path.is_dir() and not path.is_symlink()]
    prefix = Path(sys.base_prefix)
    if not any(prefix.is_relative_to(folder) for folder in folders):
        folders.append(prefix)
    return {str(folder): str(folder) for folder in folders} | {str(path): place for path, place in files.items()}


def run(files: Mapping[Path, str]) -> list[str]:
    """The command that starts a container with these files. The command to run in it is to be appended."""
    shown = [f"--volume={path}:{place}:ro" for path, place in _mounts(files).items()]
    return ["docker", "run", "--rm", "--interactive", "--network=none", *shown, IMAGE]


@contextmanager
def llm_sandbox(files: Mapping[Path, str]) -> Iterator[Callable[[str], str]]:
    """Starts a container of llm-sandbox. Yields a function that runs code in it and returns the output."""
    configs = {
        "mounts": [Mount(place, path, type="bind", read_only=True) for path, place in _mounts(files).items()],
        "network_mode": "none",
        "stop_signal": "SIGKILL",  # a shell as pid 1 ignores other signals
    }
    session = SandboxSession(
        lang="python", image=IMAGE, runtime_configs=configs, workdir=_WORK, skip_environment_setup=True
    )
    with session:

        def said(code: str) -> str:
            done = session.run(code)
            if done.exit_code:
                raise RuntimeError(f"llm-sandbox: {done.stderr}")
            return str(done.stdout)

        yield said
