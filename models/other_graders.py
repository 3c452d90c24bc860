"""Graders that graders ask: each runs in a sandbox of its own."""

from collections.abc import Callable

from gradebox.outcome import Outcome, Spent, sum_of
from models.answers import Answer, failed, replied
from models.asker import Asker, Who
from models.scoring import scoring
from sandbox.errors import InfrastructureError
from sandbox.pool import Pool
from storage.errors import NotFound, NotRunnable
from storage.store import Store


class OtherGraders:
    """Scores one thread with another grader of the project."""

    def __init__(self, store: Store, pool: Pool, asker: Asker) -> None:
        self._store = store
        self._pool = pool
        self._asker = asker

    def score(self, label: str, thread: bytes, who: Who, wanted: Callable[[], bool]) -> Answer:
        """What the version `key@number` says of a thread."""
        key, _, number = label.partition("@")
        try:
            version = self._store.graders.runnable(who.project, key, int(number))
            scorers = scoring(self._pool, self._asker, who.project, key, version, who.batch, stand_in=who.stand_in)
            with scorers as scorer:
                outcomes = scorer.score(thread, 0, label, 1, stop=lambda _: not wanted())
        except (NotFound, NotRunnable) as error:
            return failed("unknown", str(error))
        except (InfrastructureError, OSError) as error:
            return failed("failed", f"grader {label!r} could not be run: {error}", True)
        if not outcomes:
            return failed("failed", f"grader {label!r} was not run to its end, as its score was not wanted", True)
        return _answer(label, outcomes[0])


def _answer(label: str, outcome: Outcome) -> Answer:
    spent = sum_of([Spent(asks=1), outcome.spent or Spent()])
    if outcome.not_applicable is not None:
        return replied({"not_applicable": outcome.not_applicable}, spent)
    if outcome.error is not None:
        error = outcome.error
        message = f"grader {label!r} has no score ({error.kind}): {error.message}"
        return failed("failed", message, error.retryable, error.reply or "", spent)
    told = {"score": outcome.score, "reason": outcome.reason, "values": outcome.values, "details": outcome.details}
    return replied(told, spent)
