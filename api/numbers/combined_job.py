"""Summarises the combined outcomes of a batch."""

from collections.abc import Iterable, Iterator

from api.numbers.jobs import CombinedJob
from gradebox.combination import COMBINED, combined
from gradebox.outcome import Outcome, OutcomeDecoder, PlainOutcome
from storage.statistics.outcome_tally import merged, tally
from storage.statistics.summary import summarise

_decode_lines = OutcomeDecoder(PlainOutcome).decode_lines


def run(job: CombinedJob, outcomes: Iterable[bytes]) -> bytes:
    """Returns the summary as JSON. `outcomes` are blocks of lines, with those of all graders for each thread."""
    counted = merged(tally(of_threads) for of_threads in _combined(job, outcomes))
    return summarise(COMBINED, 1.0, counted).model_dump_json().encode()


def _combined(job: CombinedJob, outcomes: Iterable[bytes]) -> Iterator[list[Outcome]]:
    """The combined outcomes of the threads that end in each block."""
    graders = frozenset(job.graders)
    parts: list[Outcome] = []
    for block in outcomes:
        found = []
        for outcome in _decode_lines(block):
            if outcome.grader in graders:  # others are recorded scores
                parts.append(outcome)
            if len(parts) == len(job.graders):
                found.append(combined(COMBINED, job.weights, parts))
                parts = []
        yield found
