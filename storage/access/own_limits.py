"""The limits that a project has instead of those of the service. They are a part of the project's record."""

from collections.abc import Mapping

import msgspec

from gradebox.schemas import Version
from storage.errors import NotRunnable

OwnLimits = Mapping[str, int | float]
"""By the names of `gradebox.schemas.Limits`. A limit that is absent is that of the service."""


class _Limited(msgspec.Struct):
    limits: dict[str, int | float] = msgspec.field(default_factory=dict)


_decode = msgspec.json.Decoder(_Limited).decode


def limits_in(record: bytes | None) -> OwnLimits:
    """The own limits in the record of a project; none without a record."""
    return {} if record is None else _decode(record).limits


def check_runs(project: str, key: str, version: Version, limits: OwnLimits) -> None:
    """Raises NotRunnable if the version asks for more than a grader of the project may have."""
    for name, asked in (("timeout_s", version.timeout_s), ("memory_mb", version.memory_mb)):
        if asked > (most := limits.get(name, asked)):
            raise NotRunnable(
                f"grader '{key}@{version.number}' has `{name}` {asked:g}, and a grader of project {project!r} may have "
                f"at most {most:g}: update it with less, or have the operator raise this limit of the project"
            )
