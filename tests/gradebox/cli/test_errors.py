from gradebox.cli.errors import MESSAGES, ErrorCounts
from gradebox.outcome import Outcome, OutcomeError


def outcome(index: int, kind: str | None, message: str = "") -> Outcome:
    error = None if kind is None else OutcomeError(kind, message)  # type: ignore[arg-type]  # the kind is valid
    return Outcome(index, "a@1", None if error else 1.0, 0.1, error=error)


def test_errors_are_counted_by_what_they_say() -> None:
    counts = ErrorCounts(None)
    for index, (kind, message) in enumerate([(None, ""), ("crash", "x"), ("exception", "y"), ("exception", "y")]):
        counts.add(outcome(index, kind, message))

    groups = counts.most_frequent(10)
    assert [(group.kind, group.message, group.count, group.first.index) for group in groups] == [
        ("exception", "y", 2, 2),
        ("crash", "x", 1, 1),
    ]
    assert len(counts.most_frequent(1)) == 1


def test_messages_that_all_differ_take_bounded_memory() -> None:
    counts = ErrorCounts("exception")
    for index in range(MESSAGES + 5):
        counts.add(outcome(index, "exception", str(index)))
    counts.add(outcome(0, "crash"))

    assert (counts.total, len(counts.most_frequent(MESSAGES * 2))) == (MESSAGES + 5, MESSAGES)
