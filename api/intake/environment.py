"""Resolves the environment that a request specifies for a grader."""

import re
from typing import NamedTuple

from api.http.problems import invalid
from gradebox.schemas import EnvironmentUse, Limits
from sandbox.environments import PYTHON
from sandbox.limits import ENVIRONMENT_MEMORY_MB, MEMORY_MB
from storage.environments.environments import Environments
from storage.errors import Conflict

_NAMED = re.compile(r"([a-z0-9][a-z0-9._-]{0,63})(?:@([1-9][0-9]{0,8}))?")


class Chosen(NamedTuple):
    """One build, and the names of its packages."""

    use: EnvironmentUse
    packages: tuple[str, ...]


def choose(environments: Environments, project: str, named: str) -> Chosen | None:
    """Resolves `key` or `key@build` to a build; None for an empty name.

    Raises:
        NotFound: there is no such environment, or no such build.
        Conflict: the build is not ready, or was made for another Python version.
        ProblemError: the name is malformed.
    """
    if not named:
        return None
    found = _NAMED.fullmatch(named)
    if found is None:
        raise invalid(
            f"{named!r} is not the name of an environment: write its key, such as `math`, or a build, such as `math@2`"
        )
    use, build = environments.usable(project, found[1], int(found[2]) if found[2] else None)
    if build.python != PYTHON:
        raise Conflict(
            f"environment {use.label} was built for Python {build.python}, and the service has {PYTHON}: update the "
            "environment with the same packages, then name its new build"
        )
    return Chosen(use, tuple(package.name for package in build.lock))


def default_memory_mb(chosen: Chosen | None, most: Limits) -> int:
    """The memory limit of a grader that requests none, in a project with these limits."""
    return min(ENVIRONMENT_MEMORY_MB if chosen else MEMORY_MB, most.memory_mb)
