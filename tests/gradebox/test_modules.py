import importlib
import inspect
import sys
import traceback
from collections.abc import Iterator

import pytest

from gradebox.modules import add_modules, sources


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    finders, modules, texts = [*sys.meta_path], set(sys.modules), dict(sources)
    yield
    sys.meta_path[:] = finders
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    sources.clear()
    sources.update(texts)


def test_modules_are_imported_as_from_files() -> None:
    add_modules(
        {
            "my_added/__init__.py": "from .low import low",
            "my_added/low.py": "from my_added_too import WEIGHT\ndef low(text):\n    return text.lower() * WEIGHT\n",
            "my_added_too.py": "WEIGHT = 2\n",
        }
    )
    package = importlib.import_module("my_added")
    assert package.low("A") == "aa"
    assert sys.modules["my_added.low"].__package__ == "my_added"
    with pytest.raises(ModuleNotFoundError, match=r"my_added\.high"):
        importlib.import_module("my_added.high")


def test_they_come_before_others() -> None:
    add_modules({"httpx/__init__.py": "WEIGHT = 3\n"})
    loaded = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "httpx"}
    try:
        assert importlib.import_module("httpx").WEIGHT == 3
    finally:
        sys.modules.update(loaded)


def test_their_lines_are_shown() -> None:
    add_modules({"my_added.py": "\ndef fail():\n    raise ValueError\n"})
    module = importlib.import_module("my_added")
    assert inspect.getsource(module.fail) == "def fail():\n    raise ValueError\n"
    with pytest.raises(ValueError, match=r"^$") as raised:
        module.fail()
    shown = "".join(traceback.format_exception(raised.value))
    assert 'File "my_added.py", line 3, in fail\n    raise ValueError' in shown
