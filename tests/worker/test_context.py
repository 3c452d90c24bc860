import pytest

from worker import context, jobs


def test_a_worker_of_rqs_own_is_told_what_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_current", [])
    with pytest.raises(RuntimeError, match="gradebox worker"):
        jobs.drain()
