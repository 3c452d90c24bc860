import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from sandbox import image, shared_folders
from sandbox.errors import IsolationUnavailable


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("images") / "below" / "here"


@pytest.fixture(scope="module")
def built(folder: Path) -> image.Image:
    before = os.umask(0o077)  # the image must be readable under any umask
    try:
        return image.build(folder)
    finally:
        os.umask(before)


def _all(built: image.Image) -> list[Path]:
    return [path for root in (built.root, built.guest) for path in (root, *root.rglob("*"))]


def test_it_is_made_once(folder: Path, built: image.Image) -> None:
    before = [(path.name, path.stat().st_ino) for path in folder.iterdir()]
    assert image.build(folder) == built
    assert [(path.name, path.stat().st_ino) for path in folder.iterdir()] == before
    names = sorted(path.name.partition("-")[0] for path in folder.iterdir())
    assert names == [".lock", "guest", "python"]


@contextmanager
def process_that_uses(folder: Path) -> Iterator[None]:
    """Another process, which uses a folder until it is killed."""
    script = "import sys; from sandbox import shared_folders; from pathlib import Path\n"
    script += "with shared_folders.in_use(Path(sys.argv[1])):\n    print(flush=True)\n    sys.stdin.read()"
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        yield
        process.kill()


def test_what_no_process_uses_is_removed_at_a_start(folder: Path, built: image.Image) -> None:
    old = {name: folder / name for name in ("python-0123456789abcdef", "guest-0123456789abcdef", ".new-left", "mine")}
    young = [folder / "guest-fedcba9876543210", folder / ".new-young"]
    for path in (*old.values(), *young):
        (path / "content").mkdir(parents=True)
    for path in old.values():
        os.utime(path, (1, 1))
    os.utime(built.root, (1, 1))

    with process_that_uses(old["guest-0123456789abcdef"]), process_that_uses(old[".new-left"]):
        image.build(folder)
        assert [name for name, path in old.items() if path.exists()] == ["guest-0123456789abcdef", ".new-left", "mine"]
        assert built.root.stat().st_mtime > 1
    image.build(folder)
    assert [name for name, path in old.items() if path.exists()] == ["mine"]
    assert all((path / "content").is_dir() for path in young)
    for path in (old["mine"], *young):
        shutil.rmtree(path)


def test_a_process_keeps_its_copy_from_others(built: image.Image, tmp_path: Path) -> None:
    assert [shared_folders.set_aside(path, tmp_path) for path in (built.root, built.guest)] == [False, False]


def test_it_holds_the_standard_library_and_nothing_of_this_machine(built: image.Image) -> None:
    names = {path.name for path in _all(built)}
    assert {"json", "os.py", "asyncio", "adaptive_harmony.py", "zygote", "thread.py"} <= names
    assert not names & {"test", "tests", "pydantic", "session.py", "idlelib"}
    (folder,) = [path for path in _all(built) if path.name in ("site-packages", "dist-packages")]
    assert [path.name for path in folder.iterdir()] == ["environment.pth"]
    assert folder.parent == built.root / "usr/lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    # only compiled code is checked: the interpreter's configuration may contain paths of its build
    here = str(Path(image.__file__).parent.parent).encode()
    assert not [path for path in _all(built) if path.suffix == ".pyc" and here in path.read_bytes()]


def test_the_guest_is_part_of_gradebox(built: image.Image) -> None:
    """Graders and packages may have modules of any other name."""
    assert {path.name for path in built.guest.iterdir()} - {"__pycache__"} == {
        *("adaptive_harmony.py", "gradebox", "start", "zygote", ".programs")
    }
    imported = {  # also by code that is for type checkers alone
        name.partition(".")[0]
        for path in built.guest.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert imported - sys.stdlib_module_names <= {"gradebox", "_gradebox", "msgspec", "typing_extensions"}


def test_everyone_can_read_it_and_only_its_owner_can_change_it(built: image.Image) -> None:
    for path in _all(built):
        if not path.is_symlink():
            mode = path.stat().st_mode & 0o777
            assert mode == 0o755 or (mode == 0o644 and path.is_file()), path
            assert path.stat().st_uid == os.geteuid()


def _run_inside(built: image.Image, script: str) -> subprocess.CompletedProcess[str]:
    begin = f"""
import sys
sys.path.insert(0, {str(built.guest)!r})
from gradebox._guest.child.thread_decoder import PLACE, hidden_decoder
decode = hidden_decoder({str(built.root)!r} + PLACE).decode
LINE = b'{{"messages": [], "metadata": {{"a": [1]}}}}'
"""
    command = [str(built.root / "usr/bin/python3"), "-I", "-S", "-c", begin + script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_guests_decoder_loads_where_no_import_finds_it(built: image.Image) -> None:
    done = _run_inside(
        built, "print(decode(LINE).metadata, [n for n in sys.modules if 'msgspec' in n])\nimport msgspec"
    )
    assert done.stdout == "{'a': [1]} []\n"
    assert "No module named 'msgspec'" in done.stderr


def test_the_guests_decoder_and_packages_of_the_same_name_do_not_meet(built: image.Image) -> None:
    """Graders with packages may bring another msgspec. `uuid` is unchanged."""
    script = f"""
sys.path.append({str(Path(msgspec.__file__).parent.parent)!r})
import msgspec, uuid
class Thread(msgspec.Struct):
    metadata: dict
print(msgspec.json.decode(LINE, type=Thread).metadata, decode(LINE).metadata, msgspec.json.encode(uuid.UUID(int=7)))
try:
    decode(b"[]")
except msgspec.DecodeError:
    print("one class for both")
except Exception as error:
    print(type(error).__name__, uuid._uuid is not None)
"""
    done = _run_inside(built, script)
    assert done.stdout.splitlines() == [
        "{'a': [1]} {'a': [1]} b'\"00000000-0000-0000-0000-000000000007\"'",
        f"ValidationError {find_spec('_uuid') is not None}",  # Ubuntu's Python 3.12 has none
    ], done.stderr


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o1777])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(IsolationUnavailable, match="could be changed by others") as raised:
        image.build(folder)
    assert f"chmod go-w {folder}" in str(raised.value)
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o755)
    os.chown(folder, 12345, 12345)
    with pytest.raises(IsolationUnavailable, match="must belong to you"):
        image.build(folder)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(IsolationUnavailable, match="GRADEBOX_IMAGE_DIR"):
        image.build(tmp_path / "file" / "below")


def test_the_template_engine_of_judges_is_beside_the_guest(built: image.Image) -> None:
    template = "{{#each a}}{{this}} of {{../a.length}} {{/each}}"
    script = f"from gradebox.judges.templates import Template\nprint(Template({template!r}).render({{'a': [1, 2]}}))"
    done = _run_inside(built, script)
    assert (done.stdout, done.stderr) == ("1 of 2 2 of 2 \n", "")
