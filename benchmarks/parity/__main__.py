"""Runs every case on both sides, and writes a table. Exits with 1 if a verdict differs from that of its case."""

import json
import shutil
import subprocess
import sys
from math import isclose
from pathlib import Path
from typing import Any

from benchmarks.parity.cases import CASES, Case, Verdict
from benchmarks.parity.ours import Rows, answer

_HERE = Path(__file__).parent
KEPT = _HERE.parent / "results" / "parity.json"
"""What the real packages answered when this was last run, for tests."""
_ENVIRONMENT = Path(".parity")
_PACKAGES = ["unitxt==1.26.10", "evalassist==1.0.5"]
_TOLERANCE = 1e-9
_ROWS_SHOWN = 8
_HEAD = f"""# Our judges beside {" and ".join(_PACKAGES)}

The same scripted decisions, made into numbers by both; written by `python -m benchmarks.parity`.

"""


def main() -> int:
    """Runs all cases and returns the exit code."""
    theirs = _theirs([case.given for case in CASES])
    KEPT.write_text(json.dumps(theirs, indent=1) + "\n")
    table = _table(theirs)
    KEPT.with_suffix(".md").write_text(f"{_HEAD}{table}\n")
    print(table)
    wrong = [case.name for case, found in zip(CASES, theirs, strict=True) if verdict(found, case) != case.verdict]
    if wrong:
        print(f"not as they should be: {', '.join(wrong)}")
    return bool(wrong)


def _theirs(cases: list[dict[str, Any]]) -> list[Rows]:
    """The rows of the real packages, from an environment that the first run makes."""
    python = _ENVIRONMENT / "bin" / "python"
    if not python.exists():
        uv = shutil.which("uv", path=Path(sys.executable).parent)
        assert uv is not None, "run `make test` first: it installs what this needs"
        subprocess.run([uv, "venv", "--quiet", "--clear", _ENVIRONMENT], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *_PACKAGES], check=True)
    done = subprocess.run(
        [python, _HERE / "theirs.py"], input=json.dumps(cases), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found: list[Rows] = json.loads(done.stdout.splitlines()[-1])
    return found


def verdict(theirs: Rows, case: Case) -> Verdict:
    """How our numbers compare with `theirs`."""
    ours = answer(case.given)
    if len(theirs) == len(ours) and all(map(_same, theirs, ours)):
        return "equal"
    is_error = "error" in ours[0] or "error" in theirs[0] or any("random" in row.values() for row in theirs)
    return "better" if is_error else "different"


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and "error" not in one and all(_equal(one[name], other[name]) for name in one)


def _equal(one: object, other: object) -> bool:
    if isinstance(one, float | int) and isinstance(other, float | int):
        return isclose(one, other, rel_tol=0, abs_tol=_TOLERANCE)
    return one == other


def _table(theirs: list[Rows]) -> str:
    lines = ["| kind | case | theirs | ours | |", "| --- | --- | --- | --- | --- |"]
    for case, found in zip(CASES, theirs, strict=True):
        told = f"{verdict(found, case)}{': ' if case.why else ''}{case.why}"
        shown = (case.given["kind"], case.name, _shown(found), _shown(answer(case.given)), told)
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines)


def _shown(rows: Rows) -> str:
    if len(rows) > _ROWS_SHOWN:
        return f"{len(rows)} of them"
    return "; ".join(", ".join(_value(name, value) for name, value in row.items() if value is not None) for row in rows)


def _value(name: str, value: object) -> str:
    if name == "error":
        return str(value).partition(":")[0]
    return f"{value:.6g}" if isinstance(value, float) else f"{'biased ' if name == 'biased' else ''}{value}"


if __name__ == "__main__":
    sys.exit(main())
