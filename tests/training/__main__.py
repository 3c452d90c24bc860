"""`make train`: trains a tiny model with rewards of a real service, with the versions of TRL that docs/rl.md names.

Each version has a separate environment below `--folder`, kept for the next run because torch takes some 1.5 GB.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.gradebox.conftest import ROOT, serving

# The newest version, and the oldest that docs/rl.md names, which does not support transformers 5.
VERSIONS = {"1.16.0": ("trl==1.16.0",), "0.24.0": ("trl==0.24.0", "transformers<5")}
TORCH = "torch==2.13.0"


def environment(folder: Path, packages: tuple[str, ...]) -> Path:
    """Creates or updates an environment with these packages and the light client. Returns its Python."""
    python = folder / "bin" / "python"
    uv = str(ROOT / ".venv" / "bin" / "uv")
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    wanted = [TORCH, *packages, str(ROOT)]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *wanted], check=True)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(prog="make train")
    parser.add_argument("--folder", type=Path, default=ROOT / ".training")
    parser.add_argument("versions", nargs="*", default=list(VERSIONS), help="of TRL; by default all")
    arguments = parser.parse_args()
    failed = False
    with TemporaryDirectory(prefix="gradebox-training-") as data, serving(Path(data), "--workers", "1") as service:
        named = {"GRADEBOX_URL": service.url, "GRADEBOX_API_KEY": service.key, "HF_HUB_OFFLINE": "1"}
        for version in arguments.versions:
            python = environment(arguments.folder / f"trl-{version}", VERSIONS.get(version, (f"trl=={version}",)))
            script = Path(__file__).with_name("train.py")
            done = subprocess.run([python, "-P", script], env=os.environ | named, cwd=data, timeout=900)
            failed |= done.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
