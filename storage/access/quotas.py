"""Quotas of each project and of the service: without them, one project could take all the room of the others."""

from typing import Literal

import msgspec

from storage.errors import QuotaExceeded

MIB, GIB = 1024**2, 1024**3


class Quotas(msgspec.Struct, frozen=True):
    """The most of each that is stored.

    A quota is enforced in the transaction that adds, so simultaneous additions cannot exceed it together. One
    exception: outcomes that are being scored when the bytes run out are stored.
    """

    projects: int = 10_000
    graders: int = 2000
    """Of a project."""
    versions: int = 1000
    """Of a grader."""
    version_bytes: int = 1 * GIB
    """Of the versions of all graders of a project, because they are in Redis."""
    batches: int = 100_000
    """Of a project, including ended ones."""
    spool_bytes: int = 256 * GIB
    """Of a project's threads and outcomes, and of the builds and data of its environments."""

    builds: int = 100
    """Of the environments of a project."""
    builds_at_once: int = 2
    """Of a project, in progress."""
    models: int = 100
    """Of a project."""
    endpoints: int = 100
    """Of a project."""

    def check_builds(self, project: str, there: int, building: int, deleted: int) -> None:
        """Checks that the project may have one more build. `deleted` builds still take room for a day. Raises
        QuotaExceeded.
        """
        if deleted >= self.builds:
            raise QuotaExceeded(
                f"{deleted} builds of project {project!r} were deleted within a day, and their contents are kept so "
                "long: wait, or have the operator raise GRADEBOX_ENVIRONMENT_BUILDS"
            )
        if there >= self.builds:
            raise QuotaExceeded(
                f"the environments of project {project!r} have {there} builds, and at most {self.builds} are kept; "
                "updating an environment replaces only builds that no version of a grader names: delete environments "
                "that are no longer used, and graders that use them, or have the operator raise "
                "GRADEBOX_ENVIRONMENT_BUILDS"
            )
        if building >= self.builds_at_once:
            raise QuotaExceeded(
                f"{building} environments of project {project!r} are being built, which is as many as may be at once: "
                "wait until one is ready"
            )

    def check_data(self, project: str, there: int) -> None:
        """Checks that the project may store the data of one more environment. Raises QuotaExceeded."""
        if there >= self.builds:
            raise QuotaExceeded(
                f"project {project!r} keeps the data of environments {there} times, and at most {self.builds} are "
                "kept: delete environments that are no longer used, or wait a day until what no build names is "
                "removed, or have the operator raise GRADEBOX_ENVIRONMENT_BUILDS"
            )

    def check_number(self, project: str, noun: Literal["grader", "model", "endpoint"], there: int) -> None:
        """Checks that the project may have one more of these. Raises QuotaExceeded."""
        most = {"grader": self.graders, "model": self.models, "endpoint": self.endpoints}[noun]
        if there >= most:
            raise QuotaExceeded(
                f"project {project!r} has {there} {noun}s, and at most {most} are kept: delete some, "
                f"or have the operator raise GRADEBOX_PROJECT_{noun.upper()}S"
            )

    def check_projects(self, there: int) -> None:
        """Checks that there may be one more project. Raises QuotaExceeded."""
        if there >= self.projects:
            raise QuotaExceeded(
                f"there are {there} projects, and at most {self.projects} are kept: use one of them, "
                "or have the operator raise GRADEBOX_PROJECTS"
            )

    def check_versions(self, key: str, there: int) -> None:
        """Checks that the grader may have one more version. Raises QuotaExceeded."""
        if there >= self.versions:
            raise QuotaExceeded(
                f"grader {key!r} has {there} versions, and at most {self.versions} are kept: delete it and create it "
                "again, use another key, or have the operator raise GRADEBOX_GRADER_VERSIONS"
            )

    def check_version_bytes(self, project: str, there: int, more: int) -> None:
        """Checks that the project may store this many more bytes of versions. Raises QuotaExceeded."""
        if there + more > self.version_bytes:
            raise QuotaExceeded(
                f"the versions of the graders of project {project!r} take {there} bytes, and at most "
                f"{self.version_bytes} are kept: delete graders that are no longer used, or have the operator raise "
                "GRADEBOX_PROJECT_SOURCES_MB"
            )

    def check_batches(self, project: str, there: int) -> None:
        """Checks that the project may have one more batch. Raises QuotaExceeded."""
        if there >= self.batches:
            raise QuotaExceeded(
                f"project {project!r} has {there} batches, and at most {self.batches} are kept: delete some, "
                "or have the operator raise GRADEBOX_PROJECT_BATCHES or lower GRADEBOX_RETENTION_DAYS"
            )

    def check_bytes(self, project: str, there: int, more: int) -> None:
        """Checks that the project may store this many more bytes in the spool. Raises QuotaExceeded."""
        if there + more > self.spool_bytes:
            raise QuotaExceeded(
                f"the batches and environments of project {project!r} take {there} bytes, and at most "
                f"{self.spool_bytes} are kept: delete some, or have the operator raise GRADEBOX_PROJECT_SPOOL_GB"
            )
