"""Tests of one outcome for several graders' outcomes, without a service."""

import signal
import subprocess
import sys

import pytest

from gradebox.client.combined_reward import combined
from gradebox.outcome import Outcome, Spent
from gradebox.schemas import BatchGrader


def of(*graders: str, weight: float = 0.5) -> list[BatchGrader]:
    named = [grader.split("@") for grader in graders]
    return [BatchGrader(key=key, version=int(version), weight=weight) for key, version in named]


def test_two_versions_of_a_grader_keep_both_numbers() -> None:
    parts = [
        [Outcome(0, "polite@2", 1.0, 1.0, reason="kind", values={"length": 3.0}, spent=Spent(1, 0, 10, 1, 0.5))],
        [Outcome(0, "polite@3", 0.0, 1.0, reason="rude", values={"length": 4.0})],
        [Outcome(0, "brief@1", 0.5, 1.0, spent=Spent(1, 1))],
    ]
    (whole,) = combined("reward", of("polite@2", "polite@3", "brief@1"), parts)
    of_versions = {"polite@2": 1.0, "polite@2/length": 3.0, "polite@3": 0.0, "polite@3/length": 4.0}
    assert whole.values == of_versions | {"brief": 0.5}
    assert (whole.score, whole.reason) == (0.75, "polite@2: kind\npolite@3: rude")
    assert whole.spent == Spent(2, 1, 10, 1, 0.5)


@pytest.mark.parametrize("scores", [(100.0, 0.0), (1.0, 1.0), (100.0, -100.0), (-100.0, 0.0)])
def test_a_sum_that_is_not_finite_is_an_error(scores: tuple[float, float]) -> None:
    parts = [[Outcome(0, grader, score, 1.0)] for grader, score in zip(("a@1", "b@1"), scores, strict=True)]
    (whole,) = combined("reward", of("a@1", "b@1", weight=1.5e308), parts)
    assert (whole.score, whole.not_applicable) == (None, None)
    assert whole.error is not None and (whole.error.kind, whole.error.retryable) == ("bad_return", False)
    assert "is not finite: give the graders smaller weights" in whole.error.message
    assert whole.values == dict(zip("ab", scores, strict=True))


_INTERRUPTED = """
import time
from gradebox.client.combined_reward import Reward
from gradebox.schemas import BatchGrader

class Slow:
    def score(self, *_):
        print("ready", flush=True)
        time.sleep(30)

Reward([BatchGrader(key="g", version=1)], "r", Slow()).score([{"completion": "4"}])
"""


def test_ctrl_c_does_not_wait_for_the_graders() -> None:
    """A call may take ten minutes."""
    trainer = subprocess.Popen([sys.executable, "-c", _INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert trainer.stdout is not None
    trainer.stdout.readline()
    trainer.send_signal(signal.SIGINT)
    _, said = trainer.communicate(timeout=10)
    assert said.rstrip().endswith(b"KeyboardInterrupt")
