"""Answers the asks of a grader while it is validated, and checks that its project has what it asks."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

from models.asks.ask_context import AskContext
from models.asks.asker import Asker
from models.asks.validation_timeouts import ValidationTimeouts
from models.scoring.asking_scorer import AskingScorer
from models.scoring.other_graders import score_other
from models.settings import ModelSettings
from sandbox.grading.grading import Grading
from sandbox.pool.pool import Pool
from storage.errors import NotFound, NotRunnable
from storage.statistics.reward_warnings import other_python
from storage.store import Store

_LABEL = "test-run"


def asker_of(store: Store, settings: ModelSettings, pool: Pool, *, waits_for_store: bool = False) -> Asker:
    """Make the asker of a process; other graders that are asked run in sandboxes of this pool. Workers wait for the
    store, as with all they do.
    """
    asker = Asker(store, settings, waits_for_store=waits_for_store)
    asker.score_other = partial(score_other, store, pool, asker)
    return asker


class ProjectAnswering:
    """Answers asks on behalf of one project.

    Attributes:
        pinned: the version to use for each `grader:KEY` that was found.
        at_once: those of these graders that ask nothing themselves.
        warnings: of these graders, those that were checked in another version of Python, each with a warning.
    """

    def __init__(self, store: Store, asker: Asker, project: str, *, stand_in: bool = False) -> None:
        """With `stand_in`, models and endpoints need not exist, because no server is asked."""
        self._store = store
        self._asker = asker
        self._project = project
        self._stand_in = stand_in
        self._timeouts = ValidationTimeouts()
        self.pinned: dict[str, str] = {}
        self.at_once: set[str] = set()
        self.warnings: dict[str, str] = {}

    def missing(self, asks: Sequence[str]) -> str | None:
        """Describe which of these asks the project lacks, and what it has; None if it has all."""
        lacking = [why for ask in asks if (why := self._lacks(ask))]
        return "; ".join(lacking) if lacking else None

    def scorer(self, grading: Grading, asks: Sequence[str]) -> AskingScorer:
        """Return a scorer that uses the given sandbox and answers its asks."""
        allowed = {ask: self.pinned.get(ask, "") for ask in asks}
        context = AskContext(self._project, "", _LABEL, asks=allowed, stand_in=self._stand_in, timeouts=self._timeouts)
        return AskingScorer(lambda: nullcontext(grading), self._asker, context)

    def _lacks(self, ask: str) -> str | None:
        kind, _, key = ask.partition(":")
        if kind == "grader":
            return self._pin(key, ask)
        if self._stand_in:
            return None
        servers = self._store.models if kind == "model" else self._store.endpoints
        there = [server.key for server in servers.all(self._project)]
        if key in there:
            return None
        has = f"it has {', '.join(there)}" if there else "it has none"
        return (
            f"the project has no {kind} {key!r} ({has}): register it (`gradebox {kind}s create {key} …`), or name "
            'another, or have stand-ins answer (`ask="stand-in"`, `--ask stand-in`)'
        )

    def _pin(self, key: str, ask: str) -> str | None:
        name, _, number = key.partition("@")
        if number and not (number.isascii() and number.isdigit() and len(number) < 10):
            return f"{key!r} names no version of a grader: write it as {name}@3, or {name} for the newest"
        try:
            version = self._store.graders.runnable(self._project, name, int(number) if number else None)
        except (NotFound, NotRunnable) as error:
            return str(error)
        if version.groups:
            return f"grader {name!r} takes groups of threads, but an ask sends a grader one thread: name another"
        self.pinned[ask] = label = f"{name}@{version.number}"
        if concern := other_python(label, version.python):
            self.warnings[label] = concern.message
        if not version.asks:
            self.at_once.add(ask)
        return None
