"""Settings of the sandbox, from environment variables: `GRADEBOX_BACKEND` and so on."""

import os
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from gradebox.limits import LINE_BYTES
from gradebox.service.machine import memory_bytes
from gradebox.service.settings import fault_of
from sandbox import limits


def _image_dir() -> Path:
    """Returns a folder that the user of a sandbox can reach: root's home is closed to others."""
    if os.geteuid() == 0:
        return Path("/var/cache/gradebox")
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gradebox"


class SandboxSettings(BaseSettings):
    """Settings of the sandbox."""

    model_config = SettingsConfigDict(env_prefix="GRADEBOX_", extra="ignore")

    backend: Literal["auto", "bubblewrap", "docker"] = Field("auto", description="what builds sandboxes")
    image_dir: Path = Field(
        default_factory=_image_dir, description="where the interpreter that sandboxes see is copied to, once"
    )
    environments_dir: Path | None = Field(
        None, description="where the packages of environments are unpacked; by default below the image folder"
    )
    environment_mb: int = Field(1024, ge=1, le=65536, description="MiB that one environment may take, unpacked")
    warm_sandboxes: int = Field(2, ge=0, le=64, description="empty sandboxes kept ready, for each process")
    loaded_sandboxes: int = Field(8, ge=0, le=256, description="graders kept loaded, for each process")
    most_sandboxes: int = Field(16, ge=1, le=512, description="sandboxes at once, for each process")
    sandboxes_memory_mb: int | None = Field(
        None, ge=64, description="MiB for graders in use and loaded, for each process; by default half of the machine's"
    )
    idle_s: float = Field(60.0, gt=0, description="after which a loaded grader that nobody uses is closed")
    load_s: float = Field(
        limits.LOAD_S, gt=0, le=limits.MAX_LOAD_S, description="for the checks and the module body of a grader"
    )
    line_bytes: int = Field(LINE_BYTES, ge=1024, le=limits.MAX_LINE_BYTES, description="of one thread")
    unknown_members: Literal["refuse", "keep"] = Field(
        "refuse", description="what becomes of members of a thread that no form has: `keep` puts them into its metadata"
    )
    stdout_bytes: int = Field(
        limits.STDOUT_BYTES, ge=0, le=limits.MAX_STDOUT_BYTES, description="kept of what one completion prints"
    )
    scratch_bytes: int = Field(
        limits.SCRATCH_BYTES, ge=limits.MIB, le=limits.MAX_SCRATCH_BYTES, description="size of a sandbox's /tmp"
    )
    first_uid: int = Field(200_000, ge=1000, description="where root starts sandboxes, each has a user id from here up")
    zygote: bool = Field(
        True, description="whether bubblewrap's sandboxes are forked from one process, and not each started anew"
    )
    docker_image: str = Field(
        "", description="what Docker's sandboxes are made of; by default the same copy of the interpreter, imported"
    )
    docker_runtime: str = Field("", description="Docker's runtime, `runsc` for gVisor; by default the engine's own")
    docker_channel: Literal["auto", "socket", "attach"] = Field(
        "auto", description="how Docker's sandboxes are spoken to; `auto` tries a socket first"
    )
    docker_socket_dir: Path | None = Field(
        None, description="where sockets are that are mounted into Docker's sandboxes; by default the temporary folder"
    )
    cpus: float = Field(
        2.0, gt=0, le=64, description="processors that one of bubblewrap's sandboxes may use, by control groups"
    )
    docker_cpus: float = Field(2.0, gt=0, le=64, description="processors that one of Docker's sandboxes may use")

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
