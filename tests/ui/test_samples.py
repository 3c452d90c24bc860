"""Tests of pasted samples."""

import tracemalloc

import pytest

from api.http.problems import ProblemError
from ui import samples

LONGEST = 4 * 1024 * 1024


def test_half_an_emoji_is_no_plain_completion() -> None:
    line = '{"id": "a", "completion": "\\ud83d"}'
    assert samples.lines_of(line, LONGEST, 1000) == [line.encode()]
    assert samples.lines_of(f"{line}\n{line}", LONGEST, 1000) == [line.encode()] * 2


def test_a_line_that_is_too_long_for_the_editor_is_not_read() -> None:
    assert samples.is_sample(b"x" * (samples.SAMPLES_SHOWN + 1))
    assert not samples.is_sample(b"x" * samples.SAMPLES_SHOWN)


def test_what_is_pasted_is_not_built() -> None:
    text = '{"a": [' + "[]," * 200_000 + "[]]}"
    tracemalloc.start()
    samples.lines_of(text, LONGEST, 1000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 5 * len(text)


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, "{" * 50])
def test_what_is_no_json_is_a_completion_or_is_said(text: str) -> None:
    if text.startswith("["):
        (line,) = samples.lines_of(text, LONGEST, 1000) or []
        assert line.startswith(b'{"completion":"[[')
    else:
        with pytest.raises(ProblemError, match="is not JSON"):
            samples.lines_of(text, LONGEST, 1000)


@pytest.mark.parametrize("text", ['{"a": 1}\n' * 4, "[1, 2, 3, 4]"])
def test_there_are_as_many_as_a_request_may_have(text: str) -> None:
    assert len(samples.lines_of(text, LONGEST, 4) or []) == 4
    with pytest.raises(ProblemError, match=r"takes at most 3: make a batch"):
        samples.lines_of(text, LONGEST, 3)
