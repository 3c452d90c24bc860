"""The backends, for tests that every backend must pass. A new backend takes one line."""

import os
from collections.abc import Callable, Iterable
from functools import cache

import pytest

from sandbox.backend_choice import BACKENDS, prove
from sandbox.backends.base import Backend
from sandbox.errors import IsolationUnavailable
from sandbox.settings import SandboxSettings

NEEDED = {"bubblewrap"} | ({"docker"} if os.environ.get("GRADEBOX_TESTS_NEED_DOCKER") == "1" else set())

# Settings by variant; the part of a name before the comma is the backend.
VARIANTS: dict[str, dict[str, object]] = {
    "bubblewrap": {},
    "bubblewrap, no zygote": {"zygote": False},
    "docker": {"docker_channel": "socket"},
    "docker, attached": {"docker_channel": "attach"},
}
NAMES = ("bubblewrap", "docker")
# The same sandboxes, started in each way; only the connection to the host differs in "docker, attached".
STARTED = ("bubblewrap", "bubblewrap, no zygote", "docker")
# The kinds of bad graders that depend on what surrounds the guest: mounts, namespaces, user ids, the filter of system
# calls, and bounds of memory and processes. The other kinds (a source's text, a module body, an odd end or result of
# `grade`, asks, forged reports, what a batch leaves in processes) meet only the guest's code, which is the same in
# every sandbox, so one run with one backend is enough.
OF_ISOLATION = {"calls", "cross", "escape", "resource"}


def selftest(kinds: Iterable[str]) -> list[str]:
    """The arguments of `gradebox` for a selftest of these kinds."""
    return ["selftest", "--json", *(part for kind in sorted(kinds) for part in ("--category", kind))]


def settings_for(variant: str, **more: object) -> SandboxSettings:
    return SandboxSettings.model_validate({"backend": _maker(variant), **VARIANTS[variant], **more})


def backend_of(variant: str) -> Callable[[SandboxSettings], Backend]:
    """The class of this variant's backend. If it is unavailable, skips the test, or fails it if it is needed."""
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
