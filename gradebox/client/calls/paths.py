"""Paths and parameters of requests."""

from urllib.parse import quote

from gradebox.client.calls.call import Params
from gradebox.errors import GradeboxError


def query(**values: object) -> Params:
    """The parameters that are not None."""
    return [(name, str(value)) for name, value in values.items() if value is not None]


def number(value: float | None) -> float | None:
    """The same as a Python float: the text of numpy's is shorter for the same number, and so means another one."""
    return None if value is None else float(value)


def path_of(project: str, *parts: str) -> str:
    """The path of a resource of a project. Raises GradeboxError if a part is empty, no text or has a slash."""
    for part in (project, *parts):
        if not isinstance(part, str) or not part or "/" in part:
            raise GradeboxError(f"{part!r:.80} is no key or id: pass text that is not empty and has no /")
    return "/v1/projects/" + "/".join(quote(part, safe="") for part in (project, *parts))
