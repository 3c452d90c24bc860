"""Settings of the sandbox, from environment variables: `GRADEBOX_BACKEND` and so on."""

import os
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from gradebox.limits import LINE_BYTES, MAX_SOURCE_BYTES, MIN_SOURCE_BYTES, SOURCE_BYTES
from gradebox.service.machine_memory import memory_bytes
from gradebox.service.settings_error import fault_of
from sandbox import limits
from sandbox.kernel.user_ids import USER_IDS


def _image_dir() -> Path:
    """Returns a folder that the user of a sandbox can reach: root's home is closed to others."""
    if os.geteuid() == 0:
        return Path("/var/cache/gradebox")
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gradebox"


class SandboxSettings(BaseSettings):
    """Settings of the sandbox."""

    model_config = SettingsConfigDict(env_prefix="GRADEBOX_", extra="ignore")

    backend: Literal["auto", "bubblewrap", "docker"] = Field(
        "auto", description="sandbox backend; `auto`: one that is safe here"
    )
    image_dir: Path = Field(default_factory=_image_dir, description="folder for the sandboxes' copy of the interpreter")
    environments_dir: Path | None = Field(
        None, description="folder for unpacked packages of environments; by default inside the image folder"
    )
    environment_mb: int = Field(1024, ge=1, le=65536, description="MiB of one environment, unpacked")
    warm_sandboxes: int = Field(2, ge=0, le=64, description="empty sandboxes kept ready, for each process")
    loaded_sandboxes: int = Field(8, ge=0, le=256, description="graders kept loaded, for each process")
    most_sandboxes: int = Field(16, ge=1, le=512, description="sandboxes at once, for each process")
    sandboxes_memory_mb: int | None = Field(
        None,
        ge=64,
        description="MiB for graders in use and loaded, for each process; by default half of the machine's memory",
    )
    idle_s: float = Field(60.0, gt=0, description="seconds until an unused loaded grader is closed")
    load_s: float = Field(
        limits.LOAD_S, gt=0, le=limits.MAX_LOAD_S, description="seconds for the checks and the module body of a grader"
    )
    source_bytes: int = Field(
        SOURCE_BYTES,
        ge=MIN_SOURCE_BYTES,
        le=MAX_SOURCE_BYTES,
        description="most bytes of the source of one grader; it has to fit into a form of 1 MiB",
    )
    line_bytes: int = Field(LINE_BYTES, ge=1024, le=limits.MAX_LINE_BYTES, description="most bytes of one thread")
    line_depth: int = Field(
        limits.LINE_DEPTH,
        ge=limits.MIN_LINE_DEPTH,
        le=limits.MAX_LINE_DEPTH,
        description="most levels of nesting of one thread",
    )
    unknown_members: Literal["refuse", "keep"] = Field(
        "refuse", description="unknown members of a thread: `refuse` the line, or `keep` them in its metadata"
    )
    stdout_bytes: int = Field(
        limits.STDOUT_BYTES, ge=0, le=limits.MAX_STDOUT_BYTES, description="bytes kept of the output of one completion"
    )
    scratch_bytes: int = Field(
        limits.SCRATCH_BYTES, ge=limits.MIB, le=limits.MAX_SCRATCH_BYTES, description="bytes of a sandbox's /tmp"
    )
    scratch_files: int = Field(
        limits.SCRATCH_FILES,
        ge=limits.MIN_SCRATCH_FILES,
        le=limits.MAX_SCRATCH_FILES,
        description="files in the /tmp of a sandbox; each takes about 1 KiB of memory",
    )
    processes: int = Field(
        limits.PROCESSES, ge=0, le=limits.MAX_PROCESSES, description="processes and threads that a grader may start"
    )
    text_bytes: int = Field(
        limits.TEXT_BYTES,
        ge=limits.MIN_TEXT_BYTES,
        le=limits.MAX_TEXT_BYTES,
        description="bytes kept of a reason, an error message and a traceback, each",
    )
    first_uid: int = Field(
        200_000, ge=1000, le=2**32 - 1 - USER_IDS, description="first user id of the sandboxes that root starts"
    )
    zygote: bool = Field(
        True, description="whether bubblewrap sandboxes are forked from one process instead of each started anew"
    )
    docker_image: str = Field(
        "", description="image of Docker sandboxes; by default made from the sandboxes' copy of the interpreter"
    )
    docker_runtime: str = Field(
        "", description="Docker runtime of sandboxes, such as `runsc` for gVisor; by default the engine's own"
    )
    docker_channel: Literal["auto", "socket", "attach"] = Field(
        "auto", description="connection to Docker sandboxes; `auto` tries a socket first"
    )
    docker_socket_dir: Path | None = Field(
        None,
        description="folder of the sockets that are mounted into Docker sandboxes; by default the temporary folder",
    )
    cpus: float = Field(
        2.0, gt=0, le=64, description="processors for one bubblewrap sandbox, limited by control groups"
    )
    docker_cpus: float = Field(2.0, gt=0, le=64, description="processors for one Docker sandbox")

    @property
    def most_memory_mb(self) -> int:
        """The memory that the sandboxes of one process may use together, in MiB."""
        return self.sandboxes_memory_mb or max(64, memory_bytes() // limits.MIB // 2)


def settings_or_exit(**given: Any) -> SandboxSettings:
    """Returns the settings, for a command that a person runs. An invalid one is named on stderr, and the process exits
    with 2.
    """
    try:
        return SandboxSettings(**given)
    except ValidationError as error:
        sys.stderr.write(f"gradebox: {fault_of(error)}\n")
        sys.exit(2)
