"""Tests that `auto` chooses a safe backend, a name only that one, and a refusal gives reasons and advice."""

from contextlib import closing
from pathlib import Path

import pytest

from sandbox.backend_choice import choose
from sandbox.errors import IsolationUnavailable
from sandbox.settings import SandboxSettings
from tests.backends import NAMES, backend_of, settings_for

pytestmark = pytest.mark.sandbox


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def no_docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")


def chosen(backend: str) -> str:
    with closing(choose(SandboxSettings.model_validate({"backend": backend}))) as found:
        return found.name


@pytest.mark.parametrize("name", NAMES)
def test_a_backend_that_is_named_is_taken(name: str) -> None:
    backend_of(name)(settings_for(name)).close()  # skips if it is unavailable
    assert chosen(name) == name


def test_auto_takes_bubblewrap_where_it_is_safe(no_docker: None) -> None:
    assert chosen("auto") == "bubblewrap"


def test_auto_takes_docker_where_bubblewrap_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    backend_of("docker")(settings_for("docker")).close()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert chosen("auto") == "docker"


def test_auto_refuses_and_says_why_of_both(no_bubblewrap: None, no_docker: None) -> None:
    with pytest.raises(IsolationUnavailable) as raised:
        chosen("auto")
    told = str(raised.value)
    assert "bubblewrap: `bwrap` is not installed: `apt-get install bubblewrap`" in told
    assert "docker: no Docker engine answers" in told
    assert "DOCKER_HOST" in told


@pytest.mark.parametrize(("name", "other"), [("bubblewrap", "docker"), ("docker", "bubblewrap")])
def test_a_backend_that_is_named_is_not_replaced(name: str, other: str, no_bubblewrap: None, no_docker: None) -> None:
    with pytest.raises(IsolationUnavailable) as raised:
        chosen(name)
    assert other not in str(raised.value).lower()
