"""Tests that the blocking client is generated from the asynchronous one and is up to date."""

import inspect
import subprocess
import sys
from pathlib import Path

import gradebox
from gradebox.client import AsyncBatchHandle, AsyncClient, BatchHandle, Client

ROOT = Path(gradebox.__file__).resolve().parents[1]
SYNC = ROOT / "gradebox/client/_sync"


def modules(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*.py")}


def test_the_blocking_client_is_what_would_be_made(tmp_path: Path) -> None:
    (tmp_path / "gone.py").write_text("its source was removed")
    subprocess.run([sys.executable, ROOT / "scripts/unasync", tmp_path], check=True)

    assert modules(tmp_path) == modules(SYNC), "run .venv/bin/python scripts/unasync"


def test_both_clients_have_the_same_surface() -> None:
    with Client("http://127.0.0.1:9", "key") as client:
        awaiting = AsyncClient("http://127.0.0.1:9", "key")
        for name in ("graders", "batches", "keys", "projects"):
            assert surface(getattr(client, name)) == surface(getattr(awaiting, name))
        assert surface(client.graders.create) == surface(awaiting.graders.create)
    assert surface(BatchHandle) == surface(AsyncBatchHandle)


def surface(value: object) -> dict[str, list[str]]:
    """The public methods with their parameters."""
    members = inspect.getmembers(value, callable)
    return {name: list(inspect.signature(one).parameters) for name, one in members if not name.startswith("_")}
