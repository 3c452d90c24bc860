"""Scores with one version of a grader, whether it asks or not."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from gradebox.judges.source import settled
from gradebox.schemas import Version
from models.asker import Asker, Who
from models.asking_scorer import AskingScorer
from models.combined_scorer import CombinedScorer, PartScorer
from sandbox.grader_source import GraderSource
from sandbox.pool import Pool
from sandbox.proof import Scorer
from storage.errors import NotFound, NotRunnable
from storage.store import Store


@contextmanager
def scoring(
    store: Store,
    pool: Pool,
    asker: Asker,
    project: str,
    key: str,
    version: Version,
    batch: str = "",
    asked_by: Who | None = None,
) -> Iterator[Scorer]:
    """What scores threads with this version, for a batch or for "" none. A grader that asks this one passes on how it
    may ask itself.
    """
    source = GraderSource.of_version(project, version)
    if (combined := combined_scorer(store, pool, project, version)) is not None:
        yield combined
        return
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


def combined_scorer(store: Store, pool: Pool, project: str, version: Version) -> CombinedScorer | None:
    """What scores with a combination of graders of the project that ask nothing; None where this version is none, or a
    part of it is not there.
    """
    if version.kind != "combine" or version.config is None or not version.pinned.keys() >= {*version.asks}:
        return None
    from gradebox.judges.combine import Combine

    combine = Combine(**settled(version.kind, version.config))
    parts: dict[str, PartScorer] = {}
    for part in combine.parts:
        label = version.pinned.get(f"grader:{part.label.get('grader', '')}", "")
        key, _, number = label.partition("@")
        try:
            found = store.graders.runnable(project, key, int(number)) if number else None
        except (NotFound, NotRunnable):
            return None
        if found is None or found.asks or found.groups:
            return None
        parts[part.name] = PartScorer(label, partial(pool.grading, GraderSource.of_version(project, found)))
    return CombinedScorer(combine, parts)


def who(project: str, key: str, version: Version, batch: str = "") -> Who:
    """On whose behalf this version asks."""
    asks = {ask: version.pinned.get(ask, "") for ask in version.asks}
    return Who(project, key, f"{key}@{version.number}", batch, asks)
