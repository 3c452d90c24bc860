"""Tests of the limit on memory without control groups."""

from pathlib import Path

import pytest

from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.errors import IsolationUnavailable
from sandbox.kernel import memory_monitor
from sandbox.kernel.cgroups import Cgroups
from sandbox.settings import SandboxSettings

pytestmark = pytest.mark.sandbox


def test_without_control_groups_a_kernel_must_list_children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Cgroups, "find", lambda: None)
    monkeypatch.setattr(memory_monitor, "_CHILDREN", tmp_path / "children")
    with pytest.raises(IsolationUnavailable, match="CONFIG_PROC_CHILDREN"):
        Bubblewrap(SandboxSettings())
