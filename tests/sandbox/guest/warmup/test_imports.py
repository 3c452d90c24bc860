from itertools import count

import pytest

from sandbox.guest.warmup.imports import MODULES, preload
from tests.processes import printed


def test_what_slows_graders_down_is_not_there() -> None:
    """And no module of the guest has what a later Python takes away: the warning would be an error."""
    source = "import warnings\nwarnings.simplefilter('error')\nimport sandbox.guest.zygote\n"
    source += "from sandbox.guest.warmup.imports import preload\npreload(lambda: False)\n"
    source += "print('random' in sys.modules, 'asyncio' in sys.modules, 'json' in sys.modules)"
    assert printed(source) == "False False True\n"


def test_it_ends_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    monkeypatch.setattr("sandbox.guest.warmup.imports.import_module", imported.append)
    calls = count()
    preload(lambda: next(calls) == 2)
    assert imported == list(MODULES[:2])
