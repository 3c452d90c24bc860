"""The same attacks where each sandbox starts an interpreter of its own, as where no zygote can be had."""

import pytest

from sandbox import selftest
from tests.backends import backend_of, settings_for

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(600)]


def test_without_a_zygote_it_is_as_safe() -> None:
    settings = settings_for("bubblewrap, no zygote", load_s=4)
    backend_of("bubblewrap, no zygote")(settings).close()
    result = selftest.run(settings, only=(), show=False)
    assert result.breaches == []
    assert sum(result.tried.values()) > 350
