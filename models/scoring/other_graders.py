"""Runs graders that other graders ask, each in a separate sandbox."""

from collections.abc import Callable, Sequence

from gradebox.outcome import Outcome, Spent, sum_of
from models.asks.ask_context import AskContext
from models.asks.asker import Asker
from models.replies.answer_json import Answer, failed, replied
from models.scoring.scoring import scoring
from sandbox.errors import InfrastructureError
from sandbox.pool.pool import Pool
from storage.errors import NotFound, NotRunnable
from storage.store import Store


def score_other(
    store: Store,
    pool: Pool,
    asker: Asker,
    label: str,
    threads: Sequence[bytes],
    context: AskContext,
    wanted: Callable[[], bool],
) -> list[Answer]:
    """Score threads, each one line, with the version `key@number` of the project, and return an answer for each."""
    key, _, number = label.partition("@")
    count = len(threads)
    try:
        version = store.graders.runnable(context.project, key, int(number), within_limits=False)
        with scoring(store, pool, asker, context.project, key, version, context) as scorer:
            outcomes = scorer.score(b"\n".join(threads), 0, label, count, stop=lambda _: not wanted())
    except (NotFound, NotRunnable) as error:
        return [failed("unknown", str(error))] * count
    except (InfrastructureError, OSError) as error:
        return [failed("failed", f"grader {label!r} could not be run: {error}", True)] * count
    answers = [_answer(label, outcome) for outcome in outcomes]
    unwanted = failed(
        "failed", f"grader {label!r} was not run to its end, because its score was no longer needed", True
    )
    return answers + [unwanted] * (count - len(answers))


def _answer(label: str, outcome: Outcome) -> Answer:
    spent = sum_of([Spent(asks=1), outcome.spent or Spent()])
    if outcome.not_applicable is not None:
        return replied({"not_applicable": outcome.not_applicable}, spent)
    if outcome.error is not None:
        error = outcome.error
        message = f"grader {label!r} has no score ({error.kind}): {error.message}"
        return failed("failed", message, error.retryable, error.reply or "", spent)
    reported = {"score": outcome.score, "reason": outcome.reason, "values": outcome.values, "details": outcome.details}
    return replied(reported, spent)
