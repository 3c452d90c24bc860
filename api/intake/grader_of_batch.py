"""Which grader of a batch is meant."""

from api.http.problems import invalid
from gradebox.schemas import Batch


def label_of(batch: Batch, named: str | None) -> str:
    """The grader of this key, or `key@version`, as outcomes name it: one that scored the batch, or one of scores that
    were recorded in it, for which the batch is to have its summary. Without a name, the only one that scored it.

    Raises ProblemError where the batch has no such grader, or more than one fit.
    """
    labels = [*map(str, batch.graders), *(one.grader for one in batch.recorded)]
    meant = labels[: len(batch.graders)] if named is None else labels
    fitting = [label for label in meant if named in (None, label.partition("@")[0], label)]
    if len(fitting) == 1:
        return fitting[0]
    if named is None:
        what = "name one of its graders"
    elif fitting:
        what = f"several of its graders are {named[:80]!r}, so name one with its version"
    else:
        what = f"it has no grader {named[:80]!r}"
    raise invalid(f"batch {batch.id}: {what}: it has {', '.join(labels)}")
