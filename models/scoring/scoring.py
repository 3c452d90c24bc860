"""Scores with one version of a grader, whether or not it asks."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from gradebox.judges.kind_source import settled
from gradebox.schemas import Kind, Version
from models.asks.ask_context import AskContext
from models.asks.asker import Asker
from models.scoring.asking_scorer import AskingScorer
from models.scoring.combined_scorer import CombinedScorer, Lend, Missing, PartScorer
from sandbox.grader_source import GraderSource
from sandbox.grading.five_checks import Scorer
from sandbox.pool.pool import Pool
from storage.errors import NotFound, NotRunnable
from storage.store import Store

if TYPE_CHECKING:
    from gradebox.judges.combine import Combine


@contextmanager
def scoring(
    store: Store,
    pool: Pool,
    asker: Asker,
    project: str,
    key: str,
    version: Version,
    asked_by: AskContext | None = None,
) -> Iterator[Scorer]:
    """Yield a scorer for this version. If another grader asks this one, `asked_by` passes on its batch and its settings
    for asks.
    """
    source = GraderSource.of_version(project, version)
    if (combined := combined_scorer(store, pool, project, version)) is not None:
        yield combined
        return
    if version.asks:
        asking = ask_context(project, key, version, "")
        if asked_by is not None:
            asking = asked_by._replace(grader=key, label=asking.label, asks=asking.asks)
        yield AskingScorer(partial(pool.grading, source), asker, asking)
        return
    with pool.grading(source) as grading:
        yield grading


def is_of_graders(kind: Kind, config: Mapping[str, Any] | None) -> bool:
    """Return whether a proved grader of this kind is a combination only of graders of the project.

    It creates no part: a judge compiles its templates, and checks their patterns, which only a sandbox may do.
    """
    if kind != "combine" or config is None:
        return False
    parts = config["parts"]
    return all(
        isinstance(one, str) or "grader" in one for one in (parts.values() if isinstance(parts, dict) else parts)
    )


def combined_scorer(store: Store, pool: Pool, project: str, version: Version) -> CombinedScorer | None:
    """Return the scorer for a combination of graders that ask nothing; None if this version is not one."""
    if version.waits or version.config is None:
        return None
    try:
        combine = _combine(version.config)
    except ValueError:
        return None  # an earlier checkout took these settings: the source does not load, and the outcomes say why
    labels = {part.name: version.pinned[f"grader:{part.label['grader']}"] for part in combine.parts}
    parts = {name: PartScorer(label, _lend(store, pool, project, label)) for name, label in labels.items()}
    return CombinedScorer(combine, parts, pool.settings.text_bytes)


def _combine(config: Mapping[str, Any]) -> "Combine":
    from gradebox.judges.combine import Combine  # imported here: only processes that score with one load it

    return Combine(**settled("combine", config))


def _lend(store: Store, pool: Pool, project: str, label: str) -> Lend:
    key, _, number = label.partition("@")
    try:
        version = store.graders.runnable(project, key, int(number), within_limits=False)
    except (NotFound, NotRunnable) as gone:
        missing = Missing(str(gone))
        return lambda: nullcontext(missing)
    return partial(pool.grading, GraderSource.of_version(project, version))


def ask_context(project: str, key: str, version: Version, batch: str) -> AskContext:
    """Return the context of the asks of this version."""
    asks = {ask: version.pinned.get(ask, "") for ask in version.asks}
    return AskContext(project, key, f"{key}@{version.number}", batch, asks)
