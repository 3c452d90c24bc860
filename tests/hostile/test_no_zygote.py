"""Tests the attacks without a zygote: each sandbox starts a new interpreter."""

import json
import os
import subprocess
import sys

import pytest

from tests.backends import OF_ISOLATION, backend_of, selftest, settings_for

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(600)]


def test_without_a_zygote_it_is_as_safe() -> None:
    backend_of("bubblewrap, no zygote")(settings_for("bubblewrap, no zygote")).close()
    done = subprocess.run(
        [sys.executable, "-m", "gradebox", *selftest(), "--backend", "bubblewrap"],
        env={**os.environ, "GRADEBOX_ZYGOTE": "false"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert result["breaches"] == []
    assert result["tried"].keys() == OF_ISOLATION
    assert sum(result["tried"].values()) > 290
