"""Environments, their builds and their data."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from gradebox.schemas.base import Schema

BuildState = Literal["building", "ready", "failed"]


class LockedPackage(Schema):
    """One installed package of a build."""

    name: str
    version: str
    sha256: list[str] = Field(description="SHA-256 of each wheel that may be installed, usually one")


class EnvironmentBuild(Schema):
    """One set of packages. It is immutable once it is ready."""

    number: int
    state: BuildState
    packages: list[str] = Field(description="the packages that were asked for")
    data: str = Field("", description="SHA-256 of the data beside the packages, as sent; empty: none")
    step: str = Field("", description="the current step while the state is `building`")
    reason: str | None = Field(None, description="why the build failed, and what to do")
    log: str = Field("", description="what the build printed, such as warnings; that of a failed one is in `reason`")
    lock: list[LockedPackage] = Field([], description="all installed packages, with their versions and hashes")
    sha256: str = Field("", description="SHA-256 of the content once it is ready; equal builds share it")
    python: str = Field("", description="Python version of the build, such as 3.12")
    size_bytes: int = Field(0, description="size of all files, unpacked")
    files: int = 0
    created_at: datetime
    ended_at: datetime | None = None


class Environment(Schema):
    """A named set of packages of a project that graders may import."""

    project: str
    key: str
    build: int = Field(description="number of the newest build")
    state: BuildState = Field(description="state of the newest build")
    created_at: datetime
    updated_at: datetime
    builds: list[EnvironmentBuild] = Field(
        [], description="oldest first; lists and answers to changes contain only the newest"
    )

    @property
    def newest(self) -> EnvironmentBuild | None:
        """The newest build, if it is part of the response."""
        return next((build for build in self.builds if build.number == self.build), None)

    def __repr__(self) -> str:
        packages = f", {len(self.newest.lock)} packages" if self.newest and self.newest.lock else ""
        return self._in_brackets(f"{self.key}@{self.build} of project {self.project}: {self.state}{packages}")


class EnvironmentData(Schema):
    """Data that was uploaded, to be placed beside the packages of environments."""

    sha256: str = Field(description="SHA-256 of the zip file, which identifies the data")
    size_bytes: int = Field(description="size of all files, unpacked")
    files: int


class EnvironmentUse(Schema):
    """The build that a version of a grader runs in."""

    key: str
    build: int
    sha256: str = Field(description="SHA-256 of the content of the build")

    @property
    def label(self) -> str:
        """The environment and build as `KEY@BUILD`."""
        return f"{self.key}@{self.build}"

    def __str__(self) -> str:
        return self.label
