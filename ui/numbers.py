"""Comparisons of two graders or versions on the same threads, and of a grader with labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nextafter
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.http.problems import invalid
from api.routes import numbers
from api.services import Services
from gradebox.schemas.agreement import Agreement
from gradebox.schemas.comparison import Compared, Comparison, PairCounts
from storage.errors import NotFound
from storage.statistics.summary import inner_edges
from storage.store import Store
from ui import query
from ui.row_page import outcomes_of
from ui.templates import long_page, page
from ui.visits import visit

_FLIPS = 100
_REASONS = 30  # flips whose reasons are shown: each takes some reads of its own
_REASON_CHARACTERS = 300


async def compare(request: Request) -> Response:
    """Compare the scores of two batches, or of two graders of one batch, and show the rows that flipped."""
    who = await visit(request)
    asked = request.query_params
    a, b = asked.get("a", ""), asked.get("b", "") or asked.get("a", "")
    if not a:
        raise invalid("the page compares two batches: name them, as ?a=ID&b=ID")
    threshold = query.decimal(request, "threshold")
    answer = await numbers.compare(
        request,
        who.services,
        who.project,
        a,
        b,
        asked.get("grader") or None,
        asked.get("grader_b") or _same(asked.get("grader", ""), is_other=a != b),
        1.0 if threshold is None else threshold,
        _FLIPS,
    )
    found = Comparison.model_validate_json(bytes(answer.body))
    sources, reasons = await who.services.read(request, _details, who.services, who.project, found)
    return await long_page(
        request,
        "compare.html",
        visit=who,
        here="batches",
        found=found,
        sources=sources,
        asked=asked,
        heat=heat_map(found.pair_counts),
        reasons=reasons,
    )


@dataclass(frozen=True)
class _Pairs:
    """Pairs with these scores: their count, the shade of their cell from 0 to 9, and the bounds of the second score."""

    count: int
    shade: int
    low: float
    high: float


def heat_map(found: PairCounts | None) -> list[list[_Pairs]]:
    """A row for each part of the first score, the highest first, as an axis is drawn."""
    if found is None:
        return []
    most = max(count for row in found.counts for count in row)
    lowest = [found.low, *inner_edges(found.low, found.high)]
    highest = [*(nextafter(score, -inf) for score in lowest[1:]), found.high]  # a link's bounds are inclusive
    return [
        [_Pairs(count, _shade(count, most), *bounds) for count, *bounds in zip(row, lowest, highest, strict=True)]
        for row in reversed(found.counts)
    ]


def _shade(count: int, most: int) -> int:
    """A shade from 0 for a count of 0 to 9 for the largest count; any other count has at least 1."""
    return max(1, round(9 * count / most)) if count else 0


def _same(grader: str, *, is_other: bool) -> str | None:
    """The default grader of the second side: the first side's; in another batch, in whichever version it has there."""
    return (grader.partition("@")[0] if is_other else grader) or None


def _details(services: Services, project: str, found: Comparison) -> tuple[list[str] | None, list[tuple[str, str]]]:
    """The sources of both sides, and the reasons of the first rows that flipped."""
    return _sources(services, project, (found.a.grader, found.b.grader)), _reasons(services.store, found)


def _reasons(store: Store, found: Comparison) -> list[tuple[str, str]]:
    """The reasons of both sides, for the first rows that flipped."""
    flips = found.flips[:_REASONS]
    of_a = _reasons_of(store, found.a, [flip.index_a for flip in flips])
    of_b = _reasons_of(store, found.b, [flip.index_b for flip in flips])
    return [(of_a.get(flip.index_a, ""), of_b.get(flip.index_b, "")) for flip in flips]


def _reasons_of(store: Store, of: Compared, indices: Sequence[int]) -> dict[int, str]:
    said = outcomes_of(store, of.batch, indices)
    return {one.index: (one.reason or "")[:_REASON_CHARACTERS] for one in said if one.grader == of.grader}


def _sources(services: Services, project: str, labels: Sequence[str]) -> list[str] | None:
    """The sources of both sides; None if they are one, a version is deleted, or the graders differ."""
    (key, _, one), (other, _, two) = (label.partition("@") for label in labels)
    if key != other or one == two:
        return None
    try:
        return [services.store.graders.version(project, key, int(number)).source for number in (one, two)]
    except NotFound:
        return None


@dataclass(frozen=True)
class _Cell:
    """A cell of the confusion matrix: the number of rows with this label and this score, and its shade from 0 to 9."""

    label: float
    score: float
    count: int
    shade: int


async def agreement(request: Request) -> Response:
    """Show the agreement between a grader and labels."""
    who = await visit(request)
    get = who.services.store.batches.get
    batch = await who.services.read(request, get, who.project, request.path_params["batch"])
    grader = request.query_params.get("grader") or str(batch.graders[0])
    label, threshold = request.query_params.get("label", ""), query.decimal(request, "threshold")
    values: dict[str, Any] = {"batch": batch, "grader": grader, "label": label, "threshold": threshold}
    if not label:
        return page("agreement.html", visit=who, here="batches", found=None, cells=[], heat=[], **values)
    answer = await numbers.agreement(request, who.services, who.project, batch.id, label, grader, threshold)
    found = Agreement.model_validate_json(bytes(answer.body))
    values |= {"found": found, "cells": _cells(found), "heat": heat_map(found.pair_counts)}
    return page("agreement.html", visit=who, here="batches", **values)


def _cells(found: Agreement) -> list[list[_Cell]]:
    most = max((count for row in found.confusion for count in row), default=0)
    return [
        [_Cell(label, score, count, _shade(count, most)) for score, count in zip(found.values, row, strict=True)]
        for label, row in zip(found.values, found.confusion, strict=True)
    ]
