"""Tests that `surroundings` blocks can be nested."""

import os
import tempfile

import pytest

from sandbox.hostile.surroundings import surroundings

SECRET = "CANARY_SECRET"


@pytest.mark.parametrize("before", [None, "of somebody else"])
def test_all_is_as_it_was_when_one_is_made_within_another(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    monkeypatch.delenv(SECRET, raising=False)
    if before is not None:
        monkeypatch.setenv(SECRET, before)
    folder = tempfile.gettempdir()
    with surroundings():
        with surroundings():
            pass
        assert SECRET in os.environ
    assert os.environ.get(SECRET) == before
    assert tempfile.gettempdir() == folder
