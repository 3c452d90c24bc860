"""The list of graders, and the differences between two versions of a grader."""

import re
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import may
from api.http.problems import invalid
from gradebox.schemas import ApiKey, Batch, GraderRecord, Summary, Version, setting_text
from storage.errors import NotFound
from storage.store import Store
from ui.examples import EXAMPLES
from ui.templates import long_page
from ui.visits import visit

_LOOKED_AT = 50  # newest batches that are searched


async def listed(request: Request) -> Response:
    """List the graders of the project, by key."""
    who = await visit(request)
    after = request.query_params.get("after", "")
    found = await who.services.read(request, _listed, who.services.store, who.project, after)
    return await long_page(request, "graders.html", visit=who, here="graders", examples=EXAMPLES, **found)


def _listed(store: Store, project: str, after: str) -> dict[str, Any]:
    graders, has_more = store.graders.page(project, after)
    newest = store.batches.newest(project, _LOOKED_AT)
    last = _last_numbers(store, newest, {grader.key for grader in graders})
    looked_at = _LOOKED_AT if len(newest) == _LOOKED_AT else None  # all
    following = graders[-1].key if has_more else None
    return {"graders": graders, "last": last, "looked_at": looked_at, "following": following}


def _last_numbers(store: Store, newest: list[Batch], keys: set[str]) -> dict[str, tuple[str, Summary]]:
    """For each grader, the id of the newest batch with outcomes of it, and its numbers there."""
    found: dict[str, tuple[str, Summary]] = {}
    for listed in newest:
        labels = {str(one): one.key for one in listed.graders if one.key in keys - found.keys()}
        if labels:
            with suppress(NotFound):  # deleted meanwhile
                batch = store.batches.get(listed.project, listed.id)
                found |= {labels[one.grader]: (batch.id, one) for one in batch.summary if one.grader in labels}
    return found


async def diff(request: Request) -> Response:
    """Show two versions of a grader side by side."""
    who = await visit(request)
    key = request.path_params["key"]
    numbers = [request.query_params.get(name, "") for name in ("old", "new")]
    if not all(re.fullmatch("[1-9][0-9]{0,8}", number) for number in numbers):
        raise invalid("the page compares two versions: name them by their numbers, as ?old=1&new=2")
    wanted = [int(number) for number in numbers]
    old, new = await who.services.read(request, _versions, who.services.store, who.project, key, wanted)
    changes = {name: tuple(map(setting_text, pair)) for name, pair in old.changes(new).items()}
    return await long_page(request, "diff.html", visit=who, here="graders", key=key, old=old, new=new, changes=changes)


def _versions(store: Store, project: str, key: str, numbers: list[int]) -> list[Version]:
    return [store.graders.version(project, key, number) for number in numbers]


def why_read_only(grader: GraderRecord | None, version: Version | None, key: ApiKey) -> str:
    """Explain why a grader cannot be changed here; empty if it can."""
    if not may(key, "score"):
        return f"Read only: your API key has the role {key.role}. Testing needs the role score, saving the role manage."
    if not may(key, "manage"):
        return f"You can test but not save: your API key has the role {key.role}, and saving needs the role manage."
    if grader is not None and grader.locked:
        return "The grader is locked: unlock it to save a new version (gradebox graders unlock)."
    if grader is not None and version is not None and version.number != grader.version:
        return f"This is version {version.number}, which never changes. Version {grader.version} is the newest."
    if version is not None and version.kind == "custom":
        return "The grader has no source: its scores are recorded."
    return ""
