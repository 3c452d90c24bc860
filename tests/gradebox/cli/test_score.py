from types import SimpleNamespace
from typing import Any

import pytest

from gradebox.cli.score import watch
from gradebox.errors import ConnectionFailed


def test_a_batch_whose_service_is_gone_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def wait() -> None:
        raise ConnectionFailed("no service answers")

    batch: Any = SimpleNamespace(id="0123", wait=wait)
    with pytest.raises(ConnectionFailed):
        watch(batch)
    assert "batch 0123 goes on once its service is back: `gradebox batches watch 0123`" in capsys.readouterr().err
