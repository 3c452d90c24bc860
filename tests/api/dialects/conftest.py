"""Fixtures for tests with the clients of other services."""

from collections.abc import Iterator

import pytest

from tests.gradebox.conftest import Service, serving

LANGFUSE_SECRET = "what-langfuse-signs-with"


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Starts `gradebox serve` with every dialect (the default) and a secret for Langfuse."""
    folder = tmp_path_factory.mktemp("dialects")
    with serving(folder, "--workers", "1", langfuse_secret=LANGFUSE_SECRET) as running:
        yield running


@pytest.fixture
def project(service: Service) -> str:
    """Creates a project for one test."""
    return service.new_project().project
