import os
from pathlib import Path
from typing import Any

import pytest

from gradebox.client.environment_data import zipped
from gradebox.errors import GradeboxError


def test_a_folder_that_cannot_be_read_is_not_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "there").touch()
    scan = os.scandir

    def scandir(path: str) -> Any:
        if path.endswith("secret"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(GradeboxError, match="secret' cannot be read: Permission denied"):
        zipped(tmp_path)
