"""Resolves a grader of a batch, and refuses batches whose threads are no completions."""

from api.http.problems import invalid
from gradebox.combination import COMBINED
from gradebox.schemas import Batch
from gradebox.thread_forms import METADATA


def refuse_feedback(batch: Batch) -> None:
    """Raises ProblemError for a batch of feedback: its threads hold outcomes instead of completions."""
    if (of := batch.feedback_of) is not None:
        raise invalid(
            f"batch {batch.id} contains feedback: its threads hold outcomes of batch {of.batch}, and its scores are "
            f"copies of theirs; name batch {of.batch} instead"
        )


def label_of(batch: Batch, named: str | None, advice: str = "") -> str:
    """Returns the label of a grader in outcomes, from its key or `key@version`. It is one that scored the batch, or one
    of scores recorded in it, which requires that `batch` has its summary; or `combined`, if it has such outcomes.
    Without a name, it is the only grader that scored the batch.

    Raises ProblemError if no grader or more than one matches; `advice` is added if there is none.
    """
    labels = [*map(str, batch.graders), *(one.grader for one in batch.recorded), *[COMBINED] * batch.weighted]
    if named in labels:
        return named
    meant = labels[: len(batch.graders)] if named is None else labels
    fitting = [label for label in meant if named in (None, label.partition("@")[0])]
    if len(fitting) == 1:
        return fitting[0]
    if named is None:
        what = "name one of its graders"
    elif fitting:
        what = f"several of its graders are {named[:80]!r}, so name one with its version"
    else:
        what = f"it has no grader {named[:80]!r}"
    how = f". Write grader={fitting[0]!r}, in the shell --grader {fitting[0]}" if fitting else advice
    raise invalid(f"batch {batch.id}: {what}: it has {', '.join(labels)}{how}")


def label_source_of(batch: Batch, named: str, grader: str) -> str:
    """Returns where labels for a grader of the batch come from: a field as it is named, or the label of another grader.

    Raises ProblemError as `label_of`, and if it is the grader itself.
    """
    if named.startswith(METADATA) and named != METADATA:
        return named
    if (found := label_of(batch, named, f". For a field of the metadata, write {METADATA}{named[:80]}")) == grader:
        raise invalid(f"{grader} cannot be its own label: name another grader, or a field such as `metadata.label`")
    return found
