"""Tests of what the processes of the service load before they serve."""

from tests.processes import printed

UNUSED = ("rich", "pygments", "pydantic.v1", "email_validator", "opentelemetry.sdk.metrics")
SLOW = ("scipy", "numpy", "aiohttp")  # loaded by the program for statistics, and by the first ask


def test_what_the_service_does_not_use_or_not_yet_is_not_loaded() -> None:
    for program in ("api", "worker"):
        look = f"import {program}.__main__; print([name for name in {UNUSED + SLOW} if sys.modules.get(name)])"
        assert printed(look) == "[]\n"
