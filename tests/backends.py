"""Every backend that there is, for tests that all of them must pass: one line adds one."""

import os
from collections.abc import Callable, Iterable
from functools import cache

import pytest

from sandbox.backend_choice import BACKENDS, prove
from sandbox.backends.base import Backend
from sandbox.errors import IsolationUnavailable
from sandbox.settings import SandboxSettings

NEEDED = {"bubblewrap"} | ({"docker"} if os.environ.get("GRADEBOX_TESTS_NEED_DOCKER") == "1" else set())

# name: how it is made, and what is set for it
VARIANTS: dict[str, dict[str, object]] = {
    "bubblewrap": {},
    "bubblewrap, no zygote": {"zygote": False},
    "docker": {"docker_channel": "socket"},
    "docker, attached": {"docker_channel": "attach"},
}
NAMES = ("bubblewrap", "docker")
# Of the bad graders the kinds that come to what isolates them. The others (a source's text, an odd end or result of
# `grade`) come to the guest's code alone: once for each backend is enough.
OF_ISOLATION = {"module", "resource", "escape", "calls", "cross", "channel", "reuse"}
# Of these, what comes to who runs the service. What a container holds is the same for each user of its engine, so all
# that a process in it does to the guest is tried once.
OF_THE_USER = {"resource", "escape", "cross"}


def selftest(kinds: Iterable[str] = OF_ISOLATION) -> list[str]:
    """The command, for `gradebox`, that tries these kinds."""
    return ["selftest", "--json", *(part for kind in sorted(kinds) for part in ("--category", kind))]


def settings_for(variant: str, **more: object) -> SandboxSettings:
    """Settings that come to this backend."""
    return SandboxSettings.model_validate({"backend": _maker(variant), **VARIANTS[variant], **more})


def backend_of(variant: str) -> Callable[[SandboxSettings], Backend]:
    """What makes this backend. Skips the test where it cannot be had, and says why."""
    if why := _lacking(variant):
        if _maker(variant) in NEEDED:
            pytest.fail(why)
        pytest.skip(why)
    return BACKENDS[_maker(variant)]


def _maker(variant: str) -> str:
    return variant.partition(",")[0]


@cache
def _lacking(variant: str) -> str:
    try:
        backend = BACKENDS[_maker(variant)](settings_for(variant))
        try:
            prove(backend)
        finally:
            backend.close()
    except IsolationUnavailable as error:
        return f"{variant} cannot be had here: {error}"
    return ""
