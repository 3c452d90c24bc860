import pytest

from benchmarks import guard

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.sandbox]


def test_the_sandbox_layer_has_not_become_slower() -> None:
    assert guard.measure() >= guard.FLOOR
