import re
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from api import unknown_settings

DOCS = Path(__file__).parents[2] / "docs"


def test_a_setting_that_is_misspelt_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADEBOX_WORKRS", "3")
    monkeypatch.setenv("GRADEBOX_QQQQ", "3")
    monkeypatch.setenv("GRADEBOX_WORKERS", "3")
    monkeypatch.setenv("GRADEBOX_LOAD_S", "3")
    with capture_logs() as logs:
        unknown_settings.warn()
    told = [log["event"] for log in logs]
    assert "GRADEBOX_WORKRS is not a setting: is GRADEBOX_WORKERS meant?" in told
    assert "GRADEBOX_QQQQ is not a setting" in told
    assert not [event for event in told if event.startswith(("GRADEBOX_WORKERS", "GRADEBOX_LOAD_S"))]


@pytest.mark.parametrize("page", ["settings.md", "deployment.md", "cli.md"])
def test_no_setting_that_the_pages_name_is_unknown(page: str) -> None:
    named = set(re.findall(r"`(GRADEBOX_[A-Z0-9_]+)`", (DOCS / page).read_text()))
    assert named - unknown_settings.known() == set()
