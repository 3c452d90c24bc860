"""Which grader of a batch is meant."""

from api.http.problems import invalid
from gradebox.schemas import Batch, BatchGrader


def grader_of(batch: Batch, named: str | None) -> BatchGrader:
    """The grader of this key, or `key@version`; without a name, the only one.

    Raises ProblemError where the batch has no such grader, or more than one fit.
    """
    fitting = [one for one in batch.graders if named in (None, one.key, str(one))]
    if len(fitting) == 1:
        return fitting[0]
    if named is None:
        what = "name one of its graders"
    elif fitting:
        what = f"several of its graders are {named[:80]!r}, so name one with its version"
    else:
        what = f"it has no grader {named[:80]!r}"
    raise invalid(f"batch {batch.id}: {what}: it has {', '.join(map(str, batch.graders))}")
