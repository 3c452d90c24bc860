"""Compares the values of an extracted source, in a Python of its own, with those of the module it was taken from."""

import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from gradebox.source.snapshot import CODE, MOST_PARTS, UNKNOWN, Snapshot

_SECONDS = 20
_START = "import json, sys; request = json.load(sys.stdin); sys.path[:] = request['path']; "
_CHILD = _START + "from gradebox.source.difference import run; run(request)"


class ComparedNames(NamedTuple):
    """What is compared.

    Attributes:
        grader: the name of the grader in its module. In the source it is `grade`.
        names: names at module level.
        changing: names and attributes that the grader changes while it runs; they are left out.
        modules: modules of the standard library that the source imports. Some have settings.
    """

    grader: str
    names: Collection[str]
    changing: Collection[str]
    modules: Collection[str]


class Difference(NamedTuple):
    """A part of a value, as text here and in the uploaded copy; None where it is not set."""

    path: str
    here: str | None
    there: str | None

    @property
    def name(self) -> str:
        """The name at module level."""
        return re.split(r"\W", self.path, maxsplit=1)[0]

    def __str__(self) -> str:
        if self.path.endswith(CODE):
            return f"{self.path.removesuffix(CODE)} is another function here than in the text"
        return f"{self.path} is {self.here or 'not set'} here, and {self.there or 'not set'} in the uploaded copy"


def differences(source: str, module: Mapping[str, Any], compared: ComparedNames) -> list[Difference]:
    """Where the current values of a module differ from those that `source` gives them: at most one for each name.

    The source runs in a process of its own, with this Python and its packages. If it does not run there, or not within
    20 seconds, nothing is compared: the service's checks run it too.
    """
    there = _texts_of_source(source, module.get("__name__", "__main__"), compared)
    if there is None:
        return []
    here = _texts(Snapshot(module, {}, compared.changing), compared)
    whole = max(len(here), len(there)) < MOST_PARTS
    found: dict[str, Difference] = {}
    for path in [*here, *there] if whole else here.keys() & there.keys():
        difference = Difference(path, here.get(path), there.get(path))
        if difference.here != difference.there and UNKNOWN not in difference:
            found.setdefault(difference.name, difference)
    return list(found.values())


def run(request: dict[str, Any]) -> None:
    """Runs a source and prints the texts of its values as the last line. The process does nothing else."""
    from gradebox.thread import StringThread

    module = types.ModuleType(request["module"])
    module.__dict__["StringThread"] = StringThread
    sys.modules[module.__name__] = module  # dataclasses look up their module
    # The author's own code, in a process of the author.
    exec(compile(request["source"], "<grader>", "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    compared = ComparedNames(*request["compared"])
    snapshot = Snapshot(module.__dict__, {"grade": compared.grader}, compared.changing)
    print("\n" + json.dumps(_texts(snapshot, compared)), end="", flush=True)  # noqa: T201
    os._exit(0)  # without what the source does at exit


def _texts(snapshot: Snapshot, compared: ComparedNames) -> dict[str, str]:
    for name in sorted(compared.names):
        snapshot.add(name)
    for module in sorted(compared.modules):
        snapshot.add_settings(module)
    return snapshot.texts


def _texts_of_source(source: str, module: str, compared: ComparedNames) -> dict[str, str] | None:
    request = {
        "path": sys.path,
        "source": source,
        "module": module,
        "compared": [part if isinstance(part, str) else sorted(part) for part in compared],
    }
    if not sys.executable:  # an embedded Python
        return None
    command = [sys.executable, *["-O"] * sys.flags.optimize, "-c", _CHILD]
    try:
        done = subprocess.run(
            command, input=json.dumps(request), capture_output=True, encoding="utf-8", timeout=_SECONDS, check=False
        )
    except (subprocess.TimeoutExpired, OSError):
        return None
    if done.returncode != 0:
        return None
    texts: dict[str, str] = json.loads(done.stdout.rpartition("\n")[2])
    return texts
