"""Scores with one version of a grader, whether it asks or not."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from gradebox.schemas import Version
from models.asker import Asker, Who
from models.asking_scorer import AskingScorer
from sandbox.grader_source import GraderSource
from sandbox.pool import Pool
from sandbox.proof import Scorer


@contextmanager
def scoring(
    pool: Pool, asker: Asker, project: str, key: str, version: Version, batch: str = "", asked_by: Who | None = None
) -> Iterator[Scorer]:
    """What scores threads with this version, for a batch or for "" none. A grader that asks this one passes on how it
    may ask itself.
    """
    source = GraderSource.of_version(project, version)
    if version.asks:
        asking = who(project, key, version, batch)
        if asked_by is not None:
            asking = asking._replace(
                stand_in=asked_by.stand_in, patience=asked_by.patience, budget=asked_by.budget, keep=asked_by.keep
            )
        yield AskingScorer(partial(pool.grading, source), asker, asking)
        return
    with pool.grading(source) as grading:
        yield grading


def who(project: str, key: str, version: Version, batch: str = "") -> Who:
    """On whose behalf this version asks."""
    asks = {ask: version.pinned.get(ask, "") for ask in version.asks}
    return Who(project, key, f"{key}@{version.number}", batch, asks)
