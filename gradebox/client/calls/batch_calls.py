"""Requests about batches and their outcomes."""

from collections.abc import Iterable, Mapping
from functools import partial
from math import inf
from typing import Any
from uuid import uuid4

import msgspec
from pydantic import TypeAdapter

from gradebox.client.calls.call import Call, encode, nothing
from gradebox.client.calls.paths import number, path_of, query
from gradebox.client.grader_names import GraderChoice, split_version, weights_of
from gradebox.client.line_readers import read_threads
from gradebox.client.threads import Threads
from gradebox.client.warned_answers import noted_agreement, noted_comparison
from gradebox.schemas import Batch, BatchBudget, Replies
from gradebox.schemas.agreement import Agreement
from gradebox.schemas.comparison import Comparison
from gradebox.schemas.outcome_table import ErrorGroups, KindFilter, Sort, TablePage

COPY_S = 600.0  # to copy the threads of a batch, possibly gigabytes
STATISTICS_S = 120.0  # for statistics over outcomes, including the wait for other requests
Labels = str | Mapping[str, float] | Mapping[int, float]
"""The source of the right scores: another grader of the batch or of scores recorded in it, a field such as
`metadata.label`, or scores by the ids of threads, or by their positions if they have no ids.
"""

_batches = TypeAdapter(list[Batch]).validate_json


def create_batch(
    project: str,
    graders: GraderChoice,
    threads: Threads,
    budget: BatchBudget | None = None,
    replies: Replies = "kept",
) -> Call[Batch]:
    """Uploads threads to be scored by these graders."""
    weights = weights_of(graders)
    params = [("grader", grader) for grader in weights]
    if isinstance(graders, Mapping):
        params += [("weight", repr(float(weight))) for weight in weights.values()]
    for name, value in _budget_fields(budget).items():
        params.append((f"budget_{name}", str(value)))
    if replies != "kept":
        params.append(("replies", replies))
    path = path_of(project, "batches")
    return Call("POST", path, Batch.model_validate_json, params=params, threads=threads, once=uuid4().hex)


def _budget_fields(budget: BatchBudget | None) -> dict[str, Any]:
    if budget is None:
        return {}
    if not isinstance(budget, BatchBudget):
        raise TypeError(f"budget={budget!r:.80} is no budget: write gradebox.BatchBudget(usd=0.5), or tokens=")
    if not (fields := budget.model_dump(exclude_none=True)):
        raise ValueError("the budget has no limit: give usd=, tokens= or both")
    return fields


def create_batch_of(
    project: str, graders: GraderChoice, batch: str, budget: BatchBudget | None = None, replies: Replies = "kept"
) -> Call[Batch]:
    """Scores the threads of another batch with these graders."""
    wanted = []
    for grader, weight in weights_of(graders).items():
        key, version = split_version(grader)
        named = {"key": key} if version is None else {"key": key, "version": version}
        wanted.append({**named, "weight": weight} if isinstance(graders, Mapping) else named)
    body: dict[str, Any] = {"graders": wanted, "threads_of": batch, "replies": replies}
    if budget is not None:
        body["budget"] = _budget_fields(budget)
    path = path_of(project, "batches")
    return Call("POST", path, Batch.model_validate_json, body=encode(body), once=uuid4().hex, work_s=COPY_S)


def list_batches(project: str, limit: int, before: str | None, grader: str | None) -> Call[list[Batch]]:
    """Requests the project's newest batches: those older than `before` and those of `grader`, if given."""
    params = query(limit=limit, before=before, grader=grader)
    return Call("GET", path_of(project, "batches"), _batches, params=params)


def get_batch(
    project: str,
    batch: str,
    wait_s: float = 0,
    bootstrap: bool = False,
    within_s: float = inf,
    combined: bool = False,
) -> Call[Batch]:
    """Requests the state of a batch; the answer waits at most `wait_s` seconds for its end."""
    also = {"bootstrap": "true" if bootstrap else None, "combined": "true" if combined else None}
    params = query(wait_s=f"{wait_s:g}" if wait_s else None, **also)
    work_s = wait_s + (STATISTICS_S if bootstrap or combined else 0)
    path, read = path_of(project, "batches", batch), Batch.model_validate_json
    return Call("GET", path, read, params=params, work_s=work_s, within_s=within_s)


def compare(
    project: str, a: str, b: str, grader: str | None, grader_b: str | None, threshold: float, limit: int
) -> Call[Comparison]:
    """Compares the scores of the same rows in two batches."""
    params = query(a=a, b=b, threshold=float(threshold), limit=limit, grader=grader, grader_b=grader_b)
    return Call("GET", path_of(project, "compare"), noted_comparison, params=params, work_s=STATISTICS_S)


def agreement(project: str, batch: str, grader: str | None, label: str, threshold: float | None) -> Call[Agreement]:
    """Requests the agreement of a grader with labels."""
    params = query(label=label, grader=grader, threshold=number(threshold))
    path = path_of(project, "batches", batch, "agreement")
    return Call("GET", path, noted_agreement, params=params, work_s=STATISTICS_S)


def table(
    project: str,
    batch: str,
    grader: str | None,
    kind: KindFilter | None,
    low: float | None,
    high: float | None,
    bin_number: int | None,
    text: str | None,
    sort: Sort,
    page: int,
    limit: int,
) -> Call[TablePage]:
    """Requests a page of outcomes."""
    params = query(
        grader=grader,
        kind=kind,
        low=number(low),
        high=number(high),
        bin=bin_number,
        text=text,
        sort=sort,
        page=page,
        limit=limit,
    )
    path, read = path_of(project, "batches", batch, "table"), msgspec.json.Decoder(TablePage).decode
    return Call("GET", path, read, params=params, work_s=STATISTICS_S)


def error_groups(project: str, batch: str, grader: str | None) -> Call[ErrorGroups]:
    """Requests the errors of a batch in groups."""
    path, read = path_of(project, "batches", batch, "errors"), msgspec.json.Decoder(ErrorGroups).decode
    return Call("GET", path, read, params=query(grader=grader), work_s=STATISTICS_S)


def threads_at(project: str, batch: str, indices: Iterable[int]) -> Call[list[Any]]:
    """Requests some threads of a batch, as they were sent."""
    params = [("index", str(index)) for index in indices]
    read = partial(read_threads, number=len(params))
    return Call("GET", threads_path(project, batch), read, params=params)


def create_feedback(
    project: str, batch: str, fields: Mapping[str, Any], labels: Labels | None, budget: BatchBudget | None
) -> Call[Batch]:
    """Creates a batch of feedback on the outcomes of a batch."""
    body = dict(fields)
    if labels is not None:
        body["labels"] = labels if isinstance(labels, str) else {str(key): float(of) for key, of in labels.items()}
    if budget is not None:
        body["budget"] = _budget_fields(budget)
    path = path_of(project, "batches", batch, "feedback")
    return Call("POST", path, Batch.model_validate_json, body=encode(body), once=uuid4().hex, work_s=COPY_S)


def record_scores(project: str, batch: str, grader: str, lines: bytes) -> Call[Batch]:
    """Records external scores in a batch."""
    path, params = path_of(project, "batches", batch, "scores"), [("grader", grader)]
    read = Batch.model_validate_json
    return Call("PUT", path, read, params=params, body=lines, media_type="application/x-ndjson", work_s=STATISTICS_S)


def retry_batch(project: str, batch: str) -> Call[Batch]:
    """Scores the retryable outcomes of a batch again."""
    return Call("POST", path_of(project, "batches", batch, "retry"), Batch.model_validate_json, once=uuid4().hex)


def cancel_batch(project: str, batch: str, within_s: float = inf) -> Call[Batch]:
    """Stops a batch; its outcomes so far are kept."""
    path, read = path_of(project, "batches", batch, "cancel"), Batch.model_validate_json
    return Call("POST", path, read, within_s=within_s)


def keep_batch(project: str, batch: str, kept: bool) -> Call[Batch]:
    """Keeps a batch beyond the usual retention time, or ends that."""
    body = encode({"kept": kept})
    return Call("PATCH", path_of(project, "batches", batch), Batch.model_validate_json, body=body)


def delete_batch(project: str, batch: str) -> Call[None]:
    """Deletes a batch with its threads and outcomes."""
    return Call("DELETE", path_of(project, "batches", batch), nothing, gone_is_done=True)


def outcomes_path(project: str, batch: str) -> str:
    """The path of a batch's outcomes."""
    return path_of(project, "batches", batch, "outcomes")


def threads_path(project: str, batch: str) -> str:
    """The path of a batch's threads."""
    return path_of(project, "batches", batch, "threads")
