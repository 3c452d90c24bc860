"""Tests of module bodies that write protocol messages in place of the process they run in."""

import pytest

from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool

pytestmark = pytest.mark.sandbox

_WORDS = [
    "os.write(3, b'cgarbage')",
    "os.write(3, b'l\\x01')",
    "os.write(3, b'l\\x02')",
    "os.write(3, b'n')",
    "os.write(3, b'x\\0\\0\\0\\0')",
    "os.write(3, b'c' * 70000)",
    "os.write(3, b'c\\x03\\x00' + b'\\0' * 20); os.write(3, b'l\\x02')",  # failed, and loaded
    "os.write(3, b'c\\x03\\x01' + b'\\0' * 20); os.write(3, b'n')",  # passed, and not loaded
    "os.write(3, b'c\\x03\\x01' + b'\\0' * 20); os._exit(0)",
    "os.close(3)",
    "os.dup2(os.open('/dev/null', os.O_RDWR), 3)",
]


# The template and the supervisor, which read these words, are the same on every backend.
@pytest.mark.parametrize("attacked", ["bubblewrap"], indirect=True, scope="module")
@pytest.mark.parametrize("words", _WORDS)
def test_a_module_body_that_speaks_in_the_templates_place_fails_its_check(words: str, attacked: Pool) -> None:
    source = f"import os\n{words}\nasync def grade(thread):\n    return 666.0\n"
    report = attacked.prove(GraderSource(source, timeout_s=1.0))
    assert not report.valid
    assert report.failed is not None and report.failed.name in ("execution", "test_run")
