"""What graders of a project may ask, and who answers: for scoring, for proofs, and for graders that others ask."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

import msgspec

from gradebox.outcome import Outcome, Spent
from gradebox.schemas import Version
from models.answers import Answer, failed, replied
from models.asker import Asker, Wanted, Who
from models.asking_scorer import AskingScorer
from models.settings import ModelSettings
from sandbox.errors import InfrastructureError
from sandbox.grader_source import GraderSource
from sandbox.grading import Grading
from sandbox.pool import Pool
from sandbox.proof import Scorer
from storage.errors import NotFound, NotRunnable
from storage.store import Store

_SHOWN = 20  # names that a message lists


class Pins(NamedTuple):
    """What a grader asks, in the versions that are meant: `grader:has-answer` to `has-answer@3`; and what is missing of
    it, in words.
    """

    pinned: dict[str, str]
    missing: list[str]


def asker_of(store: Store, settings: ModelSettings, pool: Pool) -> Asker:
    """What answers in this process, other graders too. It does nothing until something is asked."""
    asker = Asker(store, settings)
    asker.score_other = partial(_score_other, store, pool, asker)
    return asker


def who_of(project: str, key: str, version: Version, batch: str = "") -> Who:
    """On whose behalf a version of a grader asks."""
    asks = {ask: version.pinned.get(ask, "") for ask in version.asks}
    return Who(project, key, f"{key}@{version.number}", batch, asks)


@contextmanager
def scoring(pool: Pool, asker: Asker, who: Who, version: Version, place_s: float | None = None) -> Iterator[Scorer]:
    """Scores with a version of a grader. One that asks holds a sandbox for each step alone."""
    source = GraderSource.of_version(who.project, version)
    if version.asks:
        yield AskingScorer(partial(pool.grading, source, place_s), asker, who)
    else:
        with pool.grading(source, place_s) as grading:
            yield grading


class ProjectAnswering:
    """Answers a grader of a project while it is proved."""

    def __init__(self, store: Store, asker: Asker, project: str, key: str = "", stand_in: bool = False) -> None:
        """`key` is the grader's, where it has one; with `stand_in`, no model and no endpoint is asked."""
        self._store = store
        self._asker = asker
        self._project = project
        self._key = key
        self._stand_in = stand_in
        self.pinned: dict[str, str] = {}

    def missing(self, asks: Sequence[str]) -> str | None:
        """What of this the project lacks, and what it has; None where it has all. It settles `pinned`."""
        pins = self._pins(asks)
        self.pinned = pins.pinned
        return "; ".join(pins.missing) or None

    def scorer(self, grading: Grading, asks: Sequence[str]) -> Scorer:
        """Scores with a sandbox that is held, and answers what is asked."""
        may_ask = {ask: self.pinned.get(ask, "") for ask in asks}
        who = Who(self._project, self._key, "test-run", asks=may_ask, stand_in=self._stand_in)
        return AskingScorer(lambda: nullcontext(grading), self._asker, who)

    def _pins(self, asks: Sequence[str]) -> Pins:
        pins = Pins({}, [])
        for ask in asks:
            kind, _, name = ask.partition(":")
            if kind == "grader":
                self._pin(ask, name, pins)
            elif not self._stand_in:
                self._look(kind, name, pins)
        return pins

    def _look(self, kind: str, name: str, pins: Pins) -> None:
        registry = self._store.models if kind == "model" else self._store.endpoints
        try:
            registry.get(self._project, name)
        except NotFound:
            there = [one.key for one in registry.all(self._project)]
            pins.missing.append(
                f"the project has no {kind} {name!r} ({_listed(kind, there)}): register it, or prove the grader with "
                '`ask` "stand-in"'
            )

    def _pin(self, ask: str, name: str, pins: Pins) -> None:
        key, at, number = name.partition("@")
        graders = self._store.graders
        if key == self._key:
            pins.missing.append(f"grader {key!r} asks itself: have it ask another")
            return
        if at and not number.isdecimal():
            pins.missing.append(f"grader {name!r}: what follows the @ is a version's number, as in {key}@3")
            return
        try:
            version = graders.runnable(self._project, key, int(number) if at else None)
        except NotRunnable as error:
            pins.missing.append(str(error))
        except NotFound as error:
            there = [grader.key for grader in graders.all(self._project)]
            pins.missing.append(f"{error} ({_listed('grader', there)})")
        else:
            pins.pinned[ask] = f"{key}@{version.number}"


def _listed(kind: str, there: Sequence[str]) -> str:
    if not there:
        return f"it has no {kind}s"
    more = f", and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
    return f"its {kind}s: {', '.join(there[:_SHOWN])}{more}"


def _score_other(store: Store, pool: Pool, asker: Asker, label: str, thread: bytes, who: Who, wanted: Wanted) -> Answer:
    """The score of a grader that another asks, in a sandbox of its own."""
    key, _, number = label.partition("@")
    try:
        version = store.graders.runnable(who.project, key, int(number))
    except (NotFound, NotRunnable) as error:
        return failed("unknown", str(error))
    its_own = who_of(who.project, key, version, who.batch)._replace(
        keep=who.keep, stand_in=who.stand_in, budget=who.budget
    )
    line = msgspec.json.format(thread, indent=-1)  # on one line
    try:
        with scoring(pool, asker, its_own, version) as scorer:
            outcomes = scorer.score(line, 0, label, 1, stop=lambda _: not wanted())
    except (InfrastructureError, OSError) as error:
        return failed("failed", f"grader {label} could not be run: {error}", retryable=True)
    if not outcomes:
        return failed("failed", f"grader {label} was stopped, as its score was not wanted any more", retryable=True)
    return _answer(label, outcomes[0])


def _answer(label: str, outcome: Outcome) -> Answer:
    its = outcome.spent or Spent()
    spent = msgspec.structs.replace(its, asks=its.asks + 1)
    if outcome.error is not None:
        error = outcome.error
        return failed("failed", f"grader {label}: {error.kind}: {error.message}", error.retryable, spent=spent)
    if outcome.not_applicable is not None:
        return replied({"not_applicable": outcome.not_applicable}, spent)
    told: Mapping[str, object] = {
        "score": outcome.score,
        "reason": outcome.reason,
        "values": outcome.values,
        "details": outcome.details,
    }
    return replied({name: value for name, value in told.items() if value is not None}, spent)
