from gradebox.cli.error_counts import GROUPS, ErrorCounts
from gradebox.outcome import Outcome, OutcomeError


def outcome(index: int, kind: str | None, message: str = "", grader: str = "a@1") -> Outcome:
    error = None if kind is None else OutcomeError(kind, message)  # type: ignore[arg-type]  # the kind is valid
    return Outcome(index, grader, None if error else 1.0, 0.1, f"id {index}", error=error)


def test_similar_errors_are_counted_together() -> None:
    counts = ErrorCounts(None)
    said = "ValueError: no number in '{}', id {} (line {})"
    counts.add(outcome(0, None))
    counts.add(outcome(0, "crash", "x"))
    for index in range(1, 1000):
        counts.add(outcome(index, "exception", said.format(f"it's {index}", f"{index:032x}", 4)))
    counts.add(outcome(1000, "exception", said.format("it", 1, 5)))
    counts.add(outcome(1001, "exception", said.format("it", 1, 4), "b@1"))

    groups = counts.most_frequent(10)
    assert [(one.first.grader, one.kind, one.similar.line, one.count, one.first.index) for one in groups] == [
        ("a@1", "exception", 4, 999, 1),
        ("a@1", "crash", None, 1, 0),
        ("a@1", "exception", 5, 1, 1000),
        ("b@1", "exception", 4, 1, 1001),
    ]
    assert groups[0].as_dict() == {
        "grader": "a@1",
        "kind": "exception",
        "count": 999,
        "message": "ValueError: no number in '…', id #",
        "line": 4,
        "example": said.format("it's 1", f"{1:032x}", 4),
        "first": {"index": 1, "id": "id 1", "stdout": None},
    }
    assert len(counts.most_frequent(1)) == 1


def test_an_error_of_combined_counts_if_no_grader_has_it() -> None:
    for kind, total in ((None, 3), ("bad_return", 1)):
        counts = ErrorCounts(kind)
        for one in (
            outcome(0, "exception"),
            outcome(0, None, grader="b@1"),
            outcome(0, "exception", grader="combined"),
            outcome(1, None),
            outcome(1, "bad_return", "not finite", grader="combined"),
            outcome(2, "crash"),
            outcome(2, "crash", grader="combined"),
        ):
            counts.add(one)
        assert counts.total == total


def test_messages_that_all_differ_take_bounded_memory() -> None:
    counts = ErrorCounts("exception")
    for index in range(GROUPS + 5):
        counts.add(outcome(index, "exception", "".join("abcdefghij"[int(digit)] for digit in str(index))))
    counts.add(outcome(0, "crash"))

    assert (counts.total, len(counts.most_frequent(GROUPS * 2))) == (GROUPS + 5, GROUPS)
