"""Checks the packages that are asked for: names with versions and extras, and nothing that names a file or a URL."""

from collections.abc import Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

MOST = 50
CHARACTERS = 200


class RequirementRefused(ValueError):
    """The packages are not acceptable. The message describes what to change."""


def read(packages: Sequence[str]) -> list[str]:
    """The packages in a normal form, sorted; may be empty.

    Raises:
        RequirementRefused: one of them is more than a name with versions and extras, or there are too many.
    """
    if len(packages) > MOST:
        raise RequirementRefused(f"there are {len(packages)} packages, and at most {MOST} can be asked for")
    return sorted({_read(one) for one in packages})


def _read(text: str) -> str:
    shown = repr(text[:80])
    if len(text) > CHARACTERS:
        raise RequirementRefused(
            f"the package {shown} is {len(text)} characters long, and at most {CHARACTERS} are read"
        )
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise RequirementRefused(
            f"{shown} names no package: write a name, and versions where it matters, such as sympy==1.14. "
            "Options, paths and URLs cannot be asked for"
        ) from error
    if requirement.url is not None:
        raise RequirementRefused(f"{shown} names a URL: environments are built from the service's package index alone")
    if requirement.marker is not None:
        raise RequirementRefused(f"{shown} has a marker: sandboxes are all alike, leave out what follows the semicolon")
    if any(specifier.operator == "===" for specifier in requirement.specifier):
        raise RequirementRefused(f"{shown} compares by ===: write ==")
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{canonicalize_name(requirement.name)}{extras}{requirement.specifier}"
