"""Tests that the committed scripts of the pages match their sources."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_the_bundle_is_of_its_sources(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm here: it makes the bundle, and users need none")
    sources = tmp_path / "scripts" / "pages"
    shutil.copytree(ROOT / "scripts" / "pages", sources, ignore=shutil.ignore_patterns("node_modules"))
    made = tmp_path / "made"
    subprocess.run([sources / "bundle", made], check=True, timeout=280)
    for name in ("editor.js", "htmx.js", "LICENSES.txt"):
        assert (made / name).read_bytes() == (ROOT / "ui" / "static" / name).read_bytes(), (
            f"run scripts/pages/bundle: {name}"
        )
