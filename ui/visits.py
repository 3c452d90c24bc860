"""The signed-in user and the project of a request."""

from dataclasses import dataclass

from anyio.to_thread import run_sync
from starlette.requests import Request

from api.access.auth import admit, may, permit
from api.services import Services
from gradebox.schemas import ApiKey, Limits, Project, Role
from storage.access.api_keys import EVERY_PROJECT
from storage.errors import no_project
from ui.security import check_origin

COOKIE = "gradebox-session"


class SignedOut(Exception):
    """There is no session, it has expired, or its API key was revoked."""


@dataclass(frozen=True)
class Visit:
    """One request of a signed-in user. `projects` are those that the API key covers."""

    services: Services
    key: ApiKey
    project: str
    limits: Limits
    projects: list[str]

    @property
    def is_operator(self) -> bool:
        """Whether the API key manages every project, and API keys."""
        return EVERY_PROJECT in self.key.projects and self.may("manage")

    def may(self, role: Role) -> bool:
        """Return whether the API key has this role, or a higher one."""
        return may(self.key, role)


async def visit(request: Request, role: Role = "read") -> Visit:
    """Authenticate a request, for the project in its path.

    Raises:
        SignedOut: there is no valid session.
        NotFound: there is no such project, or the API key does not cover it.
        ProblemError: the role does not suffice, or another site's page sent the request.
    """
    check_origin(request.method, request.headers)
    services: Services = request.app.state.services
    key = await services.look_up(_look_up, services, request.cookies.get(COOKIE))
    admit(request, services, key, request.path_params.get("project"))
    covered = await run_sync(_covered, services, key)  # no look-up waits for it: there may be thousands
    projects = list(covered)
    project = request.path_params.get("project") or next(iter(projects), "")
    if project not in projects:
        raise no_project(project)
    request.state.project = project
    request.state.own_limits = covered[project].limits
    permit(key, project, role)
    return Visit(services, key, project, services.limits_for(request), projects)


def _look_up(services: Services, session: str | None) -> ApiKey:
    key_id = services.store.sessions.key_of(session) if session else None
    key = services.store.api_keys.by_id(key_id) if key_id else None
    if key is None:
        raise SignedOut
    return key


def _covered(services: Services, key: ApiKey) -> dict[str, Project]:
    """The projects that the key covers, in the order of the pages."""
    there = services.store.projects.covered(key.projects)
    if EVERY_PROJECT in key.projects:
        there.sort(key=lambda project: (project.key != "default", project.key))
    return {project.key: project for project in there}
