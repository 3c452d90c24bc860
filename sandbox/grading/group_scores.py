"""The scores of a group, as received from a sandbox: all of their content is checked, and the group's score is computed
here from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, isfinite

import msgspec

from gradebox.outcome import CompletionScore, OutcomeError, with_encoded_details
from gradebox.score import MOST_VALUES, is_name, is_too_deep
from runtime import slow_numbers
from sandbox.guest.protocol.fields import Malformed, encode, most_of_scores

_KINDS = ("exception", "memory", "model")  # the possible kinds of an error in place of a score

_decoder = msgspec.json.Decoder(list[CompletionScore])


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The result of a group: a score, an error, or that its grader does not apply."""

    score: float | None = None
    error: OutcomeError | None = None
    not_applicable: str | None = None


def read_scores(data: bytes, count: int, most_text: int) -> list[CompletionScore]:
    """Decodes the scores of a group of `count` threads, whose texts have at most `most_text` bytes each.

    Raises:
        Malformed: the data are not valid scores, or their number differs from the number of threads.
    """
    if len(data) > most_of_scores(count):
        raise Malformed(f"scores of {len(data)} bytes for a group of {count}")
    if slow_numbers.are_many(data):
        raise Malformed(f"scores that are not read: {slow_numbers.REASON}")
    try:
        scores = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as problem:
        message = "scores that are no JSON, or nested too deep"
        raise Malformed(message) from problem
    if len(scores) != count:
        raise Malformed(f"{len(scores)} scores of a group of {count}")
    if not all(_is_sound(score, most_text) for score in scores):
        raise Malformed("a score of a group that is none")
    return [with_encoded_details(score) for score in scores]


def result_of(scores: Sequence[CompletionScore], most_text: int) -> GroupResult:
    """The mean if every completion has a score; otherwise none: the mean of the rest would be another number."""
    missing = [score for score in scores if score.score is None]
    if not missing:
        return GroupResult(_mean([score.score for score in scores if score.score is not None]))
    lacking = f"{len(missing)} of {len(scores)} completions have no score"
    errors = [score.error for score in missing if score.error is not None]
    if not errors:
        return GroupResult(not_applicable=encode(f"{lacking}: {missing[0].not_applicable}", most_text).decode())
    first = errors[0]
    retryable = all(error.retryable for error in errors)  # otherwise another try gives the group no score either
    message = encode(f"{lacking}: {first.message}", most_text).decode()
    told = msgspec.structs.replace(first, message=message, retryable=retryable)
    return GroupResult(error=told)


def _mean(scores: Sequence[float]) -> float:
    try:
        return fsum(scores) / len(scores)
    except OverflowError:  # the sum of finite numbers may overflow
        return fsum(score / len(scores) for score in scores)


def _is_sound(score: CompletionScore, most_text: int) -> bool:
    said = (score.score, score.error, score.not_applicable)
    if sum(each is not None for each in said) != 1 or (score.score is not None and not isfinite(score.score)):
        return False
    error, values = score.error, score.values or {}
    texts = [score.reason, score.not_applicable]
    if error is not None:
        is_ask = error.kind == "model"
        if error.kind not in _KINDS or (error.cause is not None) != is_ask or (error.retryable and not is_ask):
            return False
        texts += [error.message, error.reply]
    return (
        all(text is None or len(text.encode()) <= most_text for text in texts)
        and len(values) <= MOST_VALUES
        and all(is_name(name) and isfinite(number) for name, number in values.items())
        and (score.details is None or not is_too_deep(score.details))
    )
