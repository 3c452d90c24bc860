"""What docs/openai.md and docs/rl.md show, run as it stands there."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gradebox import Client
from tests.gradebox.conftest import ROOT, Service

pytestmark = [pytest.mark.service, pytest.mark.sandbox]


def blocks(page: str, kind: str = "python") -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)


def run(source: str, path: Path) -> ModuleType:
    """As a user runs a file: functions of it can be uploaded."""
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_the_pages(service: Service, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADEBOX_URL", service.url)
    monkeypatch.setenv("GRADEBOX_API_KEY", service.key)
    (keeping,) = blocks("openai.md")
    batch: Any = run(keeping, tmp_path / "page_openai.py").batch
    batch.wait(progress=False)
    assert [outcome.score for outcome in batch.outcomes()] == [1.0, 1.0]
    rewards: Any = run("\n".join(blocks("rl.md")), tmp_path / "page_rl.py")
    assert rewards.reward(prompts=["6 x 7?"] * 2, completions=["It is 42.", "No."], answer=["42", "42"]) == [1.0, 0.0]
    assert rewards.compute_score("sums", "It is 42.", None, {"answer": "42"}) == 1.0


def test_the_other_base_url(service: Service, tmp_path: Path) -> None:
    text = blocks("openai.md", "text")[0].replace("http://127.0.0.1:8000", service.url).replace("gb-…", service.key)
    page = run(
        text.replace("client.fine_tuning.alpha.graders.run", "answer = client.fine_tuning.alpha.graders.run"),
        tmp_path / "page.py",
    )
    assert page.answer == 1.0
