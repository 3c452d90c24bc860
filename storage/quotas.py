"""How much one project may keep, and the service of projects: one that keeps without end leaves the others no room."""

import msgspec

from storage.errors import QuotaExceeded

MIB, GIB = 1024**2, 1024**3


class Quotas(msgspec.Struct, frozen=True):
    """The most of each that is kept. A bound is held in the transaction that adds, so what comes in the same moment
    cannot pass it together. One exception: outcomes that are being scored while the bytes run out are kept.
    """

    projects: int = 10_000
    graders: int = 2000
    """Of a project."""
    versions: int = 1000
    """Of a grader."""
    version_bytes: int = 1 * GIB
    """Of the versions of all graders of a project: they lie in Redis."""
    batches: int = 100_000
    """Of a project, those that are over included."""
    spool_bytes: int = 256 * GIB
    """Of a project's threads and outcomes, and of the builds and data of its environments."""

    builds: int = 100
    """Of the environments of a project."""
    builds_at_once: int = 2
    """Of a project, which are not over."""
    models: int = 100
    """Of a project."""
    endpoints: int = 100
    """Of a project."""

    def check_builds(self, project: str, there: int, building: int, deleted: int) -> None:
        """Whether the project may have one more build of an environment; `deleted` ones still take room for a day."""
        if deleted >= self.builds:
            raise QuotaExceeded(
                f"{deleted} builds of project {project!r} were deleted within a day, and their contents are kept so "
                "long: wait, or have the operator raise GRADEBOX_ENVIRONMENT_BUILDS"
            )
        if there >= self.builds:
            raise QuotaExceeded(
                f"the environments of project {project!r} have {there} builds, and at most {self.builds} are kept: "
                "delete environments that are no longer used, or have the operator raise GRADEBOX_ENVIRONMENT_BUILDS"
            )
        if building >= self.builds_at_once:
            raise QuotaExceeded(
                f"{building} environments of project {project!r} are being built, which is as many as may be at once: "
                "wait until one is ready"
            )

    def check_data(self, project: str, there: int) -> None:
        """Whether the project may keep the data of one more environment. Raises QuotaExceeded."""
        if there >= self.builds:
            raise QuotaExceeded(
                f"project {project!r} keeps the data of environments {there} times, and at most {self.builds} are "
                "kept: delete environments that are no longer used, or wait a day until what no build names is "
                "removed, or have the operator raise GRADEBOX_ENVIRONMENT_BUILDS"
            )

    def check_models(self, project: str, there: int) -> None:
        """Whether the project may have one more model. Raises QuotaExceeded."""
        if there >= self.models:
            raise QuotaExceeded(
                f"project {project!r} has {there} models, and at most {self.models} are kept: delete some, "
                "or have the operator raise GRADEBOX_PROJECT_MODELS"
            )

    def check_endpoints(self, project: str, there: int) -> None:
        """Whether the project may have one more endpoint. Raises QuotaExceeded."""
        if there >= self.endpoints:
            raise QuotaExceeded(
                f"project {project!r} has {there} endpoints, and at most {self.endpoints} are kept: delete some, "
                "or have the operator raise GRADEBOX_PROJECT_ENDPOINTS"
            )

    def check_projects(self, there: int) -> None:
        """Whether one more fits. Raises QuotaExceeded, as all of these do."""
        if there >= self.projects:
            raise QuotaExceeded(
                f"there are {there} projects, and at most {self.projects} are kept: use one of them, "
                "or have the operator raise GRADEBOX_PROJECTS"
            )

    def check_graders(self, project: str, there: int) -> None:
        """Whether the project may have one more."""
        if there >= self.graders:
            raise QuotaExceeded(
                f"project {project!r} has {there} graders, and at most {self.graders} are kept: delete some, "
                "or have the operator raise GRADEBOX_PROJECT_GRADERS"
            )

    def check_versions(self, key: str, there: int) -> None:
        """Whether the grader may have one more."""
        if there >= self.versions:
            raise QuotaExceeded(
                f"grader {key!r} has {there} versions, and at most {self.versions} are kept: delete it and create it "
                "again, use another key, or have the operator raise GRADEBOX_GRADER_VERSIONS"
            )

    def check_version_bytes(self, project: str, there: int, more: int) -> None:
        """Whether so many bytes more fit."""
        if there + more > self.version_bytes:
            raise QuotaExceeded(
                f"the versions of the graders of project {project!r} take {there} bytes, and at most "
                f"{self.version_bytes} are kept: delete graders that are no longer used, or have the operator raise "
                "GRADEBOX_PROJECT_SOURCES_MB"
            )

    def check_batches(self, project: str, there: int) -> None:
        """Whether the project may have one more."""
        if there >= self.batches:
            raise QuotaExceeded(
                f"project {project!r} has {there} batches, and at most {self.batches} are kept: delete some, "
                "or have the operator raise GRADEBOX_PROJECT_BATCHES or lower GRADEBOX_RETENTION_DAYS"
            )

    def check_bytes(self, project: str, there: int, more: int) -> None:
        """Whether so many bytes more fit."""
        if there + more > self.spool_bytes:
            raise QuotaExceeded(
                f"the batches and environments of project {project!r} take {there} bytes, and at most "
                f"{self.spool_bytes} are kept: delete some, or have the operator raise GRADEBOX_PROJECT_SPOOL_GB"
            )
