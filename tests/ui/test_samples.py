"""Tests of pasted samples."""

import tracemalloc

import pytest

from api.http.problems import ProblemError
from ui import samples

LONGEST = 4 * 1024 * 1024


def test_half_an_emoji_is_no_plain_completion() -> None:
    line = '{"id": "a", "completion": "\\ud83d"}'
    assert samples.lines_of(line, LONGEST) == [line.encode()]
    assert samples.lines_of(f"{line}\n{line}", LONGEST) == [line.encode()] * 2


def test_a_line_that_is_too_long_for_the_editor_is_not_read() -> None:
    assert samples.is_sample(b"x" * (samples.SAMPLES_SHOWN + 1))
    assert not samples.is_sample(b"x" * samples.SAMPLES_SHOWN)


def test_what_is_pasted_is_not_built() -> None:
    text = '{"a": [' + "[]," * 200_000 + "[]]}"
    tracemalloc.start()
    samples.lines_of(text, LONGEST)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 5 * len(text)


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, "{" * 50])
def test_what_is_no_json_is_a_completion_or_is_said(text: str) -> None:
    if text.startswith("["):
        (line,) = samples.lines_of(text, LONGEST) or []
        assert line.startswith(b'{"completion":"[[')
    else:
        with pytest.raises(ProblemError, match="is not JSON"):
            samples.lines_of(text, LONGEST)
