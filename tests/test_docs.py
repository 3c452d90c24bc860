"""What can be set is written down."""

from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from api.settings import ApiSettings
from gradebox.service.logs import LogSettings
from sandbox.settings import SandboxSettings
from storage.settings import StorageSettings
from worker.settings import WorkerSettings

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("settings", [ApiSettings, LogSettings, SandboxSettings, StorageSettings, WorkerSettings])
def test_every_setting_is_in_the_docs(settings: type[BaseSettings]) -> None:
    written = (DOCS / "settings.md").read_text()
    prefix = settings.model_config.get("env_prefix") or ""
    missing = [
        f"{prefix}{name}".upper() for name in settings.model_fields if f"`{prefix}{name}`".upper() not in written
    ]
    assert not missing, f"docs/settings.md does not say what these are: {missing}"
