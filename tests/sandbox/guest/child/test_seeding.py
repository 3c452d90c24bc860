"""Tests of seeding, in a new interpreter, because this one has already imported `random`."""

from pathlib import Path

import pytest

from sandbox.guest.child.seeding import reseed
from tests.processes import printed

_START = (
    "import sys\nfrom sandbox.guest.child.seeding import reseed, seed_at_import\nassert 'random' not in sys.modules\n"
)


def _printed(source: str) -> list[str]:
    return printed(_START + source).split()


@pytest.mark.parametrize("statement", ["import random", "from random import random", "import tempfile, random"])
def test_random_is_seeded_when_it_is_imported(statement: str) -> None:
    seeded = f"seed_at_import()\n{statement}\nprint(sys.modules['random'].random())"
    assert _printed(seeded) == _printed("import random\nrandom.seed(0)\nprint(random.random())")


def test_without_it_random_is_random() -> None:
    source = "import random\nprint(random.random())"
    assert _printed(source) != _printed(source)


def test_other_modules_are_found_as_ever_and_random_is_not_imported_for_them() -> None:
    assert _printed("seed_at_import()\nreseed()\nimport json\nprint(json.loads('1'), 'random' in sys.modules)") == [
        "1",
        "False",
    ]


def test_torch_is_seeded_when_it_is_imported_and_for_each_completion(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("class default_generator:\n    manual_seed = print\n")
    source = f"sys.path.insert(0, {str(tmp_path)!r})\nseed_at_import()\nimport torch\n"
    assert _printed(source + "print('graded')\nreseed()") == ["0", "graded", "0"]


def test_reseed_starts_the_generator_that_is_there() -> None:
    import random

    state = random.getstate()
    try:
        reseed()
        assert random.random() == random.Random(0).random()
    finally:
        random.setstate(state)


def test_what_a_grader_put_in_place_of_a_module_is_left_alone() -> None:
    assert _printed("sys.modules['random'] = object()\nreseed()\nprint('graded')") == ["graded"]
