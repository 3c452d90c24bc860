"""The context of one request: its API key, and the data this key may read."""

from functools import cached_property

from api.access.auth import require
from api.access.callers import Caller
from api.dialects.adaptive import ids
from api.dialects.adaptive.project_servers import ProjectServers
from api.http.problems import too_large
from api.services import Services
from gradebox.schemas import ApiKey, GraderRecord, Project, Role
from storage.errors import NotFound

GRADERS = 20_000  # per response: a query may request the graders of each grader's project
ANSWER_BYTES = 32 * 1024 * 1024
_SCALAR_BYTES = 8
TOO_LONG = f"the answer would be longer than {ANSWER_BYTES} bytes: ask for fewer graders, or less of each, at once"


class NoProject(NotFound):
    """A project that is missing or not covered, with the message that the SDK recognises."""

    def __init__(self, ref: str) -> None:
        super().__init__(f"EntityNotFound: Project {ref!r} does not exist, or this API key does not cover it")


class QueryContext:
    """The context of one execution, which runs in one thread."""

    def __init__(self, services: Services, key: ApiKey, caller: Caller) -> None:
        self.services = services
        self.caller = caller
        self.key = key
        self._shown = 0
        self._answer_bytes = 0
        self._graders: dict[str, list[GraderRecord]] = {}
        self._registered: dict[str, ProjectServers] = {}

    @cached_property
    def projects(self) -> list[Project]:
        """The projects that the API key covers, by key."""
        return self.services.store.projects.covered(self.key.projects)

    def find_project(self, ref: str) -> Project | None:
        """The project with this key or id, or None."""
        by_key = (project for project in self.projects if project.key == ref)
        by_id = (project for project in self.projects if str(ids.of_project(project)) == ref.lower())
        return next(by_key, None) or next(by_id, None)

    def project(self, ref: str, role: Role) -> Project:
        """The project with this key or id, for an API key of this role or a higher one.

        Raises:
            NoProject: it does not exist, or the key does not cover it.
            ProblemError: the role does not suffice.
        """
        project = self.find_project(ref)
        if project is None:
            raise NoProject(ref)
        require(self.key, role)
        return project

    def caller_in(self, project: Project) -> Caller:
        """The caller, in this project."""
        return self.caller.of_project(project.key, self.services.limits_of(project.limits))

    def grader(self, project: Project, ref: str) -> GraderRecord:
        """The grader with this key or id. Raises NotFound."""
        if ids.is_id(ref):
            found = next((one for one in self.graders(project) if str(ids.of_grader(one)) == ref.lower()), None)
            if found is not None:
                return found
        return self.services.store.graders.get(project.key, ref)

    def registered(self, project: Project) -> ProjectServers:
        """The models and endpoints of a project, read once."""
        if project.key not in self._registered:
            self._registered[project.key] = ProjectServers(self.services.store, project.key)
        return self._registered[project.key]

    def tell(self, size: int) -> None:
        """Counts bytes of the response. Raises ProblemError if it is too long."""
        self._answer_bytes += size
        if self._answer_bytes > ANSWER_BYTES:
            raise too_large(TOO_LONG)

    def graders(self, project: Project) -> list[GraderRecord]:
        """All graders of a project. Raises ProblemError if the response has too many of them."""
        if project.key not in self._graders:
            self._graders[project.key] = self.services.store.graders.all(project.key)
        self._shown += len(self._graders[project.key])
        if self._shown > GRADERS:
            raise too_large(f"the answer would hold more than {GRADERS} graders or metrics: ask for less at once")
        self.tell(sum(len(one.name) + len(one.description) for one in self._graders[project.key]))
        return self._graders[project.key]


def size_of(value: object) -> int:
    """The approximate length of a value as JSON."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(size_of(name) + size_of(member) for name, member in value.items())
    return sum(map(size_of, value)) if isinstance(value, list) else _SCALAR_BYTES
