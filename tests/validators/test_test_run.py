import pytest

from validators import test_run
from validators.candidate import FILENAME, CheckFailed
from validators.test_run import Run

GOOD = Run(1.0, "", "", "")
LACKS_KEY = Run(None, "exception", "KeyError: 'answer' (line 2)", 'answer = thread.metadata["answer"]')
LACKS_VALUE = Run(None, "exception", "AttributeError: no 'lower'", 'thread.metadata.get("answer").lower()')
DIVIDES = Run(None, "exception", "ZeroDivisionError: division by zero (line 2)", "return 1 / 0")


READS = 'async def grade(thread):\n    return thread.metadata["answer"]\n'
SQUARES = "async def grade(thread):\n    return {}[2]\n"


@pytest.mark.parametrize(
    ("run", "source", "hinted"),
    [
        (LACKS_KEY, READS, True),
        (LACKS_KEY._replace(trace=""), READS, True),
        (LACKS_VALUE, READS, True),
        (DIVIDES, READS, False),
        (Run(None, "exception", "NameError: name 'Score' is not defined", 'Score(thread.metadata["a"])'), READS, False),
        (Run(None, "exception", "KeyError: 2 (line 2)", "return {}[2]"), SQUARES, False),
        (LACKS_KEY, "", False),  # a thread of the caller may have metadata
    ],
)
def test_who_lacks_metadata_is_told_how_to_send_some(run: Run, source: str, hinted: bool) -> None:
    with pytest.raises(CheckFailed) as raised:
        test_run.check([run], source)
    assert raised.value.message.startswith(f"`grade` gave no score (exception): {run.message}")
    assert ("`threads=`, `--threads FILE.jsonl`" in raised.value.message) == hinted
    assert raised.value.trace == run.trace


def test_the_line_is_that_of_the_innermost_frame() -> None:
    trace = (
        f'Traceback (most recent call last):\n  File "{FILENAME}", line 7, in grade\n    return helper(thread)\n'
        f'  File "{FILENAME}", line 3, in helper\n    return 1 / 0\nZeroDivisionError: division by zero'
    )
    with pytest.raises(CheckFailed) as raised:
        test_run.check([DIVIDES._replace(trace=trace)])
    assert raised.value.line == 3


def test_who_sent_threads_is_told_which_one_fails() -> None:
    with pytest.raises(CheckFailed) as raised:
        test_run.check([GOOD, LACKS_KEY, DIVIDES])
    assert raised.value.message == f"`grade` gave no score on thread 1, counted from 0 (exception): {LACKS_KEY.message}"


def test_scores_of_all_threads_pass() -> None:
    assert test_run.check([GOOD]) == "`grade` returned 1.0"
    assert "each of 2 threads" in test_run.check([GOOD, GOOD])


def test_a_grader_that_disagrees_with_itself_is_told_where() -> None:
    assert test_run.warnings([GOOD, GOOD], [GOOD, GOOD]) == []
    (other,) = test_run.warnings([GOOD, GOOD], [GOOD, Run(0.5, "", "", "")])
    assert other.startswith("thread 1, counted from 0, was scored 1.0 the first time and 0.5 the second")
    (error,) = test_run.warnings([GOOD], [DIVIDES])
    assert "an error (exception) the second" in error
