"""The program that runs an uploaded copy and describes its values.

Each upload of a function starts it up to five times. So it imports little, and is not in the package `source`, whose
import takes as long again.
"""

import importlib
import json
import os
import sys
import types
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from gradebox.snapshot.hidden_files import hide_files
from gradebox.snapshot.snapshot import Snapshot

_GIVEN = {"HOME", "LANG", "PATH", "PWD", "PYTHONHASHSEED", "TMPDIR", "TZ", "USER"}  # variables of a sandbox, too


class ComparedNames(NamedTuple):
    """What is compared.

    Attributes:
        grader: the name of the grader in its module. In the source it is `grade`.
        names: names at module level.
        changed: those of them that the grader may change while it runs, of other modules as `module:name`.
        changing: attributes that it may change, as `class.attribute`, or `.attribute` of every class.
        modules: modules of the standard library whose settings are compared, and functions in them, as
            `module:class.function`.
        others: names at module level of the author's other modules, by module.
        shared: names at module level of which the grader binds none again; those with the same object are compared.
    """

    grader: str
    names: Collection[str]
    changed: Collection[str]
    changing: Collection[str]
    modules: Collection[str]
    others: Mapping[str, Collection[str]]
    shared: Collection[str]


def run(request: dict[str, Any]) -> None:
    """Runs a source and prints the texts of its values as the last line. The process does nothing else. The working
    folder holds no file of the author.
    """
    from gradebox.thread import StringThread

    stdout = os.dup(1)  # the source may replace or close its own
    hide_files(os.getcwd())  # noqa: PTH109  # as a text
    module = types.ModuleType(request["module"])
    module.__dict__["StringThread"] = StringThread
    sys.modules[module.__name__] = module  # dataclasses look up their module
    for name in os.environ.keys() - _GIVEN:
        if name in request["source"]:  # packages may need others
            del os.environ[name]
    # The author's own code, in a process of the author.
    exec(compile(request["source"], "<grader>", "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    compared = ComparedNames(*request["compared"])
    snapshot = snapshot_of(module.__dict__, {"grade": compared.grader}, compared)
    with os.fdopen(stdout, "wb") as file:
        file.write(b"\n" + json.dumps(texts(snapshot, compared)).encode())
    os._exit(0)  # without what the source does at exit


def snapshot_of(module: Mapping[str, Any], names: Mapping[str, str], compared: ComparedNames) -> Snapshot:
    """A snapshot of a module, and of the author's other modules."""
    others = {name: vars(importlib.import_module(name)) for name in compared.others}
    return Snapshot(module, names, compared.changing, compared.changed, others)


def texts(snapshot: Snapshot, compared: ComparedNames) -> dict[str, str]:
    """The texts of the compared values."""
    for name in sorted(compared.names):
        snapshot.add(name)
    for name in sorted(compared.shared):
        snapshot.add_other_names(name, compared.shared)
    for other, names in sorted(compared.others.items()):
        for name in sorted(names):
            snapshot.add_of(other, name)
    for module in sorted(compared.modules):
        snapshot.add_settings(module)
    return snapshot.texts
