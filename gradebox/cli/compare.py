"""`gradebox compare` and `gradebox agreement`"""

from typing import TYPE_CHECKING, Annotated

import typer

from gradebox.cli.command import Invocation
from gradebox.cli.output import SPENT, as_json, cell, errors, fail, id_text, note, say, table

if TYPE_CHECKING:
    from gradebox.schemas import Interval
    from gradebox.schemas.agreement import Agreement, Correlation
    from gradebox.schemas.comparison import Comparison


def compare(
    invocation: Invocation,
    a: Annotated[str, typer.Argument(metavar="A", help="The id of a batch.")],
    b: Annotated[
        str, typer.Argument(metavar="B", help="The id of another batch, or of the same one with another grader.")
    ],
    grader: Annotated[str | None, typer.Option(help="The grader, if a batch has several.")] = None,
    grader_b: Annotated[str | None, typer.Option(help="The grader of B, if it differs from that of A.")] = None,
    threshold: Annotated[float, typer.Option(help="The lowest score that passes.")] = 1.0,
    limit: Annotated[int, typer.Option(min=0, max=1000, help="Maximum number of flipped rows to list.")] = 20,
) -> None:
    """The scores of the same rows in two batches: their difference, and which rows flipped."""
    found = invocation.client.compare(a, b, grader, grader_b, threshold=threshold, limit=limit)
    as_json(found) if invocation.json else _show_comparison(found)
    if found.note is not None and not found.scored:
        fail(f"none of {found.pairs:,} pairs has two scores: {found.note}", 1)
    if found.note is not None:
        note(f"note: {found.note}")


def agreement(
    invocation: Invocation,
    batch: Annotated[str, typer.Argument(metavar="ID", help="The batch's id.")],
    grader: Annotated[str, typer.Argument(metavar="GRADER", help="A grader of the batch, such as a judge.")],
    label: Annotated[
        str, typer.Argument(metavar="LABEL", help="Another grader of the batch, or a field such as metadata.label.")
    ],
    threshold: Annotated[
        float | None, typer.Option(help="Scores and labels from this value on count as 1, others as 0.")
    ] = None,
) -> None:
    """How far a grader agrees with labels, and how its scores correlate with the length of completions."""
    found = invocation.client.agreement(batch, grader, label, threshold=threshold)
    if invocation.json:
        as_json(found)
    elif found.note is None:
        _show_agreement(found)
    if found.note is not None:
        fail(f"none of {found.rows:,} rows has a score and a label: {found.note}", 1)


def _show_comparison(found: "Comparison") -> None:
    sides = [(found.a, found.mean_a, found.passed_a), (found.b, found.mean_b, found.passed_b)]
    rows = [
        (one.batch, one.grader, one.rows, one.scored, errors(one.errors), one.not_applicable, mean, passed)
        for one, mean, passed in sides
    ]
    columns = ["batch", "grader", "rows", "scored", "errors", "not applicable", "mean of pairs", "passed of pairs"]
    table(columns, rows)
    say(f"difference: {cell(found.difference)}{_bounds(found.interval)}")
    by = {"id": "id", "index": "position, as not both batches have ids"}[found.paired_by]
    say(f"pairs by {by}: {found.higher:,} higher, {found.lower:,} lower, {found.same:,} same")
    say(f"flipped at {cell(found.threshold)}: {found.flipped_up:,} up, {found.flipped_down:,} down")
    if found.flips:
        flips = [(id_text(one.id), one.index_a, one.index_b, one.score_a, one.score_b) for one in found.flips]
        table(["id", "thread of A", "thread of B", "score of A", "score of B"], flips)
    spent = [(one.batch, one.grader, *one.spent.cells) for one, *_ in sides if one.spent is not None]
    if spent:
        table(["batch", "grader", *SPENT], spent)
    for left_out, why in (
        (found.only_a, "exist only in A"),
        (found.only_b, "exist only in B"),
        (found.scored_only_a, "have no score in B"),
        (found.scored_only_b, "have no score in A"),
        (found.scored_neither, "have no score in either"),
    ):
        if left_out:
            note(f"left out: {left_out:,} rows that {why}")
    if found.repeated_ids:
        note(f"{found.repeated_ids:,} rows have an id that an earlier row has: they are paired in order")


def _show_agreement(found: "Agreement") -> None:
    say(f"{found.grader} against {found.label}: {found.scored:,} of {found.rows:,} rows have a score and a label")
    numbers = [
        ("kappa", cell(found.kappa)),
        ("accuracy", f"{cell(found.accuracy)}{_bounds(found.accuracy_interval)}"),
        ("precision", cell(found.precision)),
        ("recall", cell(found.recall)),
        ("Spearman", _correlation(found.spearman)),
        ("mean of scores", cell(found.grader_mean)),
        ("mean of labels", cell(found.label_mean)),
        ("difference", f"{cell(found.difference)}{_bounds(found.interval)}"),
        ("score with length", _correlation(found.length.score)),
        ("score minus label with length", _correlation(found.length.excess)),
        ("decided differently in the other order", f"{found.position.detected:,} of {found.position.checked:,}"),
    ]
    table(["", "value"], numbers)
    if found.values:
        rows = [
            (f"label {cell(value)}", *counts, rate)
            for value, counts, rate in zip(found.values, found.confusion, found.label_rates, strict=True)
        ]
        rows.append(("share", *map(cell, found.grader_rates), None))
        table(["", *(f"score {cell(value)}" for value in found.values), "share"], rows)
    else:
        note("more than 20 different values: set a --threshold to count them as 0 and 1")
    if found.length.quarters:
        quarters = [(f"{one.shortest:,} to {one.longest:,}", one.count, one.mean) for one in found.length.quarters]
        table(["characters", "completions", "mean score"], quarters)
    if found.spent is not None:
        table(SPENT, [found.spent.cells])


def _bounds(interval: "Interval | None") -> str:
    if interval is None:
        return ""
    return f" (95%: {cell(interval.low)} to {cell(interval.high)}, {interval.method})"


def _correlation(found: "Correlation") -> str:
    if found.value is None:
        return "-"
    return f"{cell(found.value)} (p {cell(found.p_value)}, {found.count:,} rows)"
