"""Fixtures for tests that ask servers."""

from collections.abc import Iterator

import pytest

from examples.model_server import ModelServer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server
