import ast
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import gradebox
import gradebox.judges
from tests.processes import printed

PACKAGE = Path(gradebox.__file__).parent


def test_every_exported_name_can_be_had() -> None:
    for name in vars(gradebox)["__all__"]:
        assert getattr(gradebox, name) is not None


@pytest.mark.parametrize("package", [gradebox, gradebox.judges])
def test_type_checkers_see_the_same_names(package: ModuleType) -> None:
    tree = ast.parse(Path(package.__file__ or "").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = [alias.asname for node in imports for alias in node.names if alias.asname]
    assert sorted(seen) == [name for name in vars(package)["__all__"] if name != "__version__"]


def test_a_misspelt_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Cleint"):
        gradebox.Cleint  # type: ignore[attr-defined]  # noqa: B018  # tested here


def test_graders_can_import_what_they_need_where_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "gradebox").mkdir()
    for name in ("__init__.py", "thread.py", "thread_forms.py", "score.py"):
        shutil.copy(PACKAGE / name, tmp_path / "gradebox")
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; from gradebox import StringThread, Score; print(Score(0.5))"
    )

    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "0.5\n"


def test_importing_gradebox_loads_neither_the_client_nor_its_libraries() -> None:
    loaded = "import gradebox; print(sorted({'httpx', 'pydantic', 'msgspec', 'rich'} & sys.modules.keys()))"
    assert printed(loaded) == "[]\n"


def test_the_client_and_the_command_line_need_no_module_of_linux(tmp_path: Path) -> None:
    """They run on Windows: what it lacks is taken away once the libraries, which know of it, are loaded."""
    code = """
import os, signal, subprocess, sys
import asyncio, httpx, pydantic, rich.progress, typer
sys.modules.update(dict.fromkeys(["fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"]))
for module, names in (
    (os, "fchmod fchown fork geteuid getuid killpg register_at_fork sched_getaffinity setsid statvfs sysconf uname"),
    (signal, "SIGALRM SIGCHLD SIGHUP SIGUSR1 setitimer"),
):
    for name in names.split():
        delattr(module, name)
import gradebox.cli, gradebox.key_file, gradebox.rewards.trl, gradebox.rewards.verifiers, gradebox.rewards.verl
import gradebox.source
from pathlib import Path
gradebox.Client(api_key="k")
gradebox.key_file.write(Path(sys.argv[1], "key"), "secret")
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert (tmp_path / "key").read_text() == "secret\n"
