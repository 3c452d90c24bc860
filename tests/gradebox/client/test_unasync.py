"""Tests that the blocking client is generated from the asynchronous one and is up to date."""

import subprocess
import sys
from pathlib import Path

import gradebox

ROOT = Path(gradebox.__file__).resolve().parents[1]
SYNC = ROOT / "gradebox/client/_sync"


def modules(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*.py")}


def test_the_blocking_client_is_what_would_be_made(tmp_path: Path) -> None:
    (tmp_path / "gone.py").write_text("its source was removed")
    subprocess.run([sys.executable, ROOT / "scripts/unasync", tmp_path], check=True)

    assert modules(tmp_path) == modules(SYNC), "run .venv/bin/python scripts/unasync"
