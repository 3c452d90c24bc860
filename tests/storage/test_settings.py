from pathlib import Path

import pytest

from storage.settings import StorageSettings


def test_the_spool_is_in_the_data_folder_unless_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADEBOX_DATA_DIR", str(tmp_path))
    assert StorageSettings().spool == f"file://{tmp_path}/spool"
    monkeypatch.setenv("GRADEBOX_SPOOL_URL", "s3://bucket/spool")
    assert StorageSettings().spool == "s3://bucket/spool"
