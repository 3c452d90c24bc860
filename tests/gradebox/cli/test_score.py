from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gradebox.cli import batches
from gradebox.cli.score import score, watch
from gradebox.errors import ConnectionFailed, GradeboxError
from gradebox.outcome import Outcome


def test_a_batch_whose_service_is_gone_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def wait() -> None:
        raise ConnectionFailed("no service answers")

    batch: Any = SimpleNamespace(id="0123", wait=wait)
    with pytest.raises(ConnectionFailed):
        watch(batch)
    assert "batch 0123 goes on once its service is back: `gradebox batches watch 0123`" in capsys.readouterr().err


@pytest.mark.parametrize("command", [batches.outcomes, batches.list_errors])
def test_a_finished_batch_without_some_outcomes_is_an_error(command: Any) -> None:
    batch: Any = SimpleNamespace(
        state="finished",
        status=SimpleNamespace(id="b1", graders=["a@1"], total=2),
        outcomes=lambda *_, **__: [Outcome(0, "a@1", 1.0, 0.1)],
    )
    invocation: Any = SimpleNamespace(client=SimpleNamespace(batches=SimpleNamespace(get=lambda _: batch)), json=False)
    with pytest.raises(GradeboxError, match="1 of 2 outcomes of batch b1 are missing"):
        command(invocation, "b1")


def test_a_file_without_some_outcomes_is_an_error(tmp_path: Path) -> None:
    """Another client may have had the batch scored again meanwhile."""
    batch: Any = SimpleNamespace(
        id="b1",
        status=SimpleNamespace(id="b1", graders=["a@1"], total=2),
        wait=lambda: None,
        outcomes=lambda: [Outcome(0, "a@1", 1.0, 0.1)],
    )
    client = SimpleNamespace(batches=SimpleNamespace(create=lambda *_, **__: batch))
    invocation: Any = SimpleNamespace(client=client, json=False)
    with pytest.raises(GradeboxError, match="1 of 2 outcomes of batch b1 are missing"):
        score(invocation, "a", None, tmp_path / "out.jsonl", threads_of="b0", budget_cost=None, budget_tokens=None)
