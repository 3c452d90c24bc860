"""Compares the values of an extracted source, in a Python of its own, with those of the module it was taken from."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from time import monotonic
from typing import Any, NamedTuple

from gradebox.snapshot.function_code import UNKNOWN
from gradebox.snapshot.program import ComparedNames, snapshot_of, texts
from gradebox.snapshot.snapshot import CODE, CUT, MAY_CHANGE, ORDER, OTHER_NAMES, STATE

_START = "import json, sys; request = json.load(sys.stdin); sys.path[:] = request['path']; "
_OF_A_RUN = ("datetime.", "UUID(")  # they tell runs apart, and are no part of a score
_OF_SANDBOX = {"LANG": "C", "TZ": "UTC", "PYTHONUTF8": "1"}
_NUMBER = r"-?\d+(\.\d+)?(e[+-]\d+)?|(Fraction|Decimal)\(.*\)"
_CHILD = _START + "from gradebox.snapshot.program import run; run(request)"


class Difference(NamedTuple):
    """A part of a value, as text here and in the uploaded copy; None where it is not set.

    Attributes:
        may_change: the grader may have made this difference, if it ran here.
        varies: the copy has another value each time it is loaded.
        by: the place of a statement that may have made it.
    """

    path: str
    here: str | None
    there: str | None
    may_change: bool = False
    varies: bool = False
    by: str = ""

    @property
    def module(self) -> str:
        """The module, if it is another one than the grader's; else empty."""
        return self._start()[0] or ""

    @property
    def name(self) -> str:
        """The name at module level."""
        return self._start()[1]

    def _start(self) -> tuple[str | None, str]:
        found = re.match(r"(?:([\w.]+):)?(\w*)", self.path)
        assert found is not None  # it matches every text
        return found[1], found[2]

    @property
    def place(self) -> str:
        """The path without an index at its end, because the order of items may differ too."""
        return re.sub(r"(\[[^][]*\]|\{[^{}]*\})$", "", self.path)

    @property
    def is_state(self) -> bool:
        """Whether each call changes this, and not the first alone: a number, a state, a container with fewer items."""
        if STATE in self.path:
            return True
        here, there = (re.match(r"\w+ of (\d+)", each or "") for each in (self.here, self.there))
        if here and there:
            return int(here[1]) < int(there[1])
        return all(re.fullmatch(_NUMBER, each or "") for each in (self.here, self.there))

    @property
    def is_by_use(self) -> bool:
        """Whether this changes by a call of the name itself, or of a function with it."""
        return any(mark in self.path for mark in (STATE, "(its default", "of its closure)"))

    @property
    def variable(self) -> str:
        """The name or attribute that differs; empty if it has none, as the state of an iterator."""
        if STATE in self.path or "(its default" in self.path:
            return ""
        return re.split(r"[ (.:]", re.sub(r" of its closure\)|\[.*\]", "", self.path))[-1]

    def __str__(self) -> str:
        return f"{self._text()}, perhaps by {self.by}" if self.by else self._text()

    def _text(self) -> str:
        if self.path.endswith(CODE):
            return f"{self.path.removesuffix(CODE)} is another function here than in the text"
        if self.path.endswith(ORDER):
            return f"{self.path.removesuffix(ORDER)} has another order here than in the uploaded copy"
        if self.path.endswith(OTHER_NAMES):
            here, there = self.here or "no other name", self.there or "no other name"
            return f"{self.name} is the same object as {here} here, and as {there} in the uploaded copy"
        if STATE in self.path:
            return f"{self.path.partition(STATE)[0]} has another state here than in the uploaded copy"
        if self.varies:
            return f"{self.path} is another value each time the source is loaded"
        return f"{self.path} is {self.here or 'not set'} here, and {self.there or 'not set'} in the uploaded copy"


def differences(
    source: str, module: Mapping[str, Any], compared: ComparedNames, deadline: float
) -> list[Difference] | None:
    """Where the current values of a module differ from those that `source` gives them.

    The source runs in a process of its own, with this Python and its packages, but without the author's files. Values
    that depend on the seed of hashes, as the order of a set does, are left out, and so are times and UUIDs of a run.
    None if it does not run there, or not until `deadline`, a time of `time.monotonic`: the service's checks run it too.
    """
    there = _texts_of_source(source, module, compared, deadline, seed=1)
    if there is None:
        return None
    found = _differing(texts(snapshot_of(module, {}, compared), compared), there)
    if all(each.may_change and not each.is_state for each in found):
        return found
    with ThreadPoolExecutor() as threads:  # together, because each may import for seconds
        others = list(
            threads.map(lambda seed: _texts_of_source(source, module, compared, deadline, seed) or there, (2, 3, 1))
        )
    by_seed = {each.place for other in others[:2] for each in _differing(there, other)}
    by_chance = {each.place for each in _differing(there, others[2])}
    return [
        each._replace(varies=each.place in by_chance)
        for each in found
        if each.place not in by_seed
        or (each.place in by_chance and not each.may_change and not (each.here or "").startswith(_OF_A_RUN))
    ]


def _plain(part: str | Collection[str] | Mapping[str, Collection[str]]) -> object:
    """The part as JSON has it."""
    if isinstance(part, Mapping):
        return {name: sorted(names) for name, names in part.items()}
    return part if isinstance(part, str) else sorted(part)


def _differing(here: Mapping[str, str], there: Mapping[str, str]) -> list[Difference]:
    both = [
        Difference(path.replace(MAY_CHANGE, ""), here.get(path), there.get(path), may_change=MAY_CHANGE in path)
        for path in dict.fromkeys([*here, *there])
    ]
    cut = {(each.module, each.name) for each in both if each.path.endswith(CUT)}
    return [
        each
        for each in both
        if each.here != each.there and UNKNOWN not in each and not (None in each and (each.module, each.name) in cut)
    ]


def _texts_of_source(
    source: str, module: Mapping[str, Any], compared: ComparedNames, deadline: float, seed: int
) -> dict[str, str] | None:
    request = {
        "path": [str(Path(entry).absolute()) for entry in sys.path],
        "source": source,
        "module": module.get("__name__", "__main__"),
        "compared": [_plain(part) for part in compared],
    }
    if not sys.executable:  # an embedded Python
        return None
    others = {name: value for name, value in os.environ.items() if not name.startswith("LC_")}
    command = [sys.executable, "-P", *["-O"] * sys.flags.optimize, "-c", _CHILD]
    try:
        with TemporaryDirectory(prefix="gradebox-", ignore_cleanup_errors=True) as folder:
            done = subprocess.run(
                command,
                input=json.dumps(request).encode(),
                capture_output=True,
                cwd=folder,
                env={**others, **_OF_SANDBOX, "PYTHONHASHSEED": str(seed), "TMPDIR": folder},
                timeout=max(0.0, deadline - monotonic()),
                check=False,
            )
        # The folder stands for that of temporary files, which a sandbox works in.
        printed = done.stdout.rpartition(b"\n")[2].replace(os.fsencode(folder), os.fsencode(gettempdir()))
        found = json.loads(printed)
    except (subprocess.TimeoutExpired, OSError, ValueError):  # ValueError: it ended before its last line
        return None
    return found if done.returncode == 0 and isinstance(found, dict) else None
