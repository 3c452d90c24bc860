"""Tests that no two classes of this project have the same name."""

import ast
import tomllib
from collections import defaultdict
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]

# These classes have names from other systems.
FOREIGN = ("api/dialects/", "gradebox/langfuse.py")
# The client's classes and errors have the names of the store's records and errors that they show.
COUNTERPARTS = (("gradebox/client/_sync/", "storage/"), ("gradebox/errors.py", "storage/errors.py"))


def _places() -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            for statement in ast.parse(file.read_text()).body:
                if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                    places[statement.name].append(str(file.relative_to(ROOT)))
    return places


def _may_share(one: str, other: str) -> bool:
    if one.startswith(FOREIGN) != other.startswith(FOREIGN):
        return True
    return any(
        (one.startswith(client) and other.startswith(store)) or (other.startswith(client) and one.startswith(store))
        for client, store in COUNTERPARTS
    )


def test_rooms_are_all_there() -> None:
    assert len(_places()) > 500
    assert not [room for room in ROOMS if not (ROOT / room).is_dir()]


def test_no_two_classes_have_one_name() -> None:
    twice = {
        name: files
        for name, files in _places().items()
        if not all(_may_share(one, other) for one, other in combinations(files, 2))
    }
    assert not twice
