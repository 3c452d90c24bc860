"""Tests of the wheel, installed in an empty environment and used from another folder."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("api", "models", "runtime", "sandbox", "storage", "ui", "validators", "worker")
GRADER = """
import gradebox

async def grade(thread) -> float:
    return gradebox.Score(float(thread.completion() == "4"), reason="looked")
"""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and the folder from which it is used."""

    folder: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def says(self, code: str) -> str:
        """The output of a line of Python."""
        done = self.run("python", "-P", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def finds(self, *names: str) -> str:
        """Those of these modules that can be imported."""
        return self.says(f"from importlib.util import find_spec; print(*filter(find_spec, {names!r}))")

    @property
    def variables(self) -> dict[str, str]:
        """Without the variables of this repository: PYTHONPATH and settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GRADEBOX_", "PYTHON"))}
        return kept | {"XDG_STATE_HOME": str(self.folder / "state"), "XDG_DATA_HOME": str(self.folder / "share")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel built from it."""
    folder = tmp_path_factory.mktemp("dist")
    _build(ROOT, folder, "sdist")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        sdist.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    _build(source, folder, "wheel")
    return folder


def _build(source: Path, target: Path, kind: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)


@pytest.fixture(scope="module")
def pins(built: Path) -> Path:
    """The lock file as constraints: the same versions as in the tests, so that downloaded packages are used again."""
    pinned = [line.partition(" \\")[0] for line in (ROOT / "requirements.lock").read_text().splitlines()]
    file = built / "constraints.txt"
    file.write_text("\n".join(line for line in pinned if "==" in line) + "\n")
    return file


@pytest.fixture(scope="module")
def light(built: Path, pins: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return _install(built, pins, tmp_path_factory.mktemp("light"), "")


@pytest.fixture(scope="module")
def server(built: Path, pins: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return _install(built, pins, tmp_path_factory.mktemp("server"), "[server]")


def _install(built: Path, pins: Path, folder: Path, extra: str) -> Environment:
    (wheel,) = built.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    pip = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
    done = subprocess.run([*pip, "-c", str(pins), f"{wheel}{extra}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    _copy_byte_code(folder)
    return Environment(folder)


def _copy_byte_code(folder: Path) -> None:
    """Copies what this Python has compiled of the same packages. Python ignores it where it is of other files."""
    ours = Path(sysconfig.get_path("purelib"))
    (site,) = folder.glob("lib/*/site-packages")
    for place in [path for path in site.rglob("*") if path.is_dir()]:
        compiled = ours / place.relative_to(site) / "__pycache__"
        if compiled.is_dir() and not (place / "__pycache__").exists():
            shutil.copytree(compiled, place / "__pycache__")


def test_the_wheel_has_one_top_level_name(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"gradebox", "gradebox-0.1.0.dist-info"}
    for room in ROOMS:
        found = (path.relative_to(ROOT) for path in (ROOT / room).rglob("*.*"))
        sources = {str(path) for path in found if "__pycache__" not in path.parts}
        assert sources == {name.removeprefix("gradebox/_server/") for name in names if f"_server/{room}/" in name}
    assert not [
        name for name in names if Path(name).name.startswith(("test_", "conftest")) and "validators" not in name
    ]


def test_the_source_distribution_builds_without_what_is_not_in_it(built: Path) -> None:
    unpacked = built / "unpacked" / "gradebox-0.1.0"
    assert (unpacked / "LICENSE").is_file()
    assert (unpacked / "README.md").is_file()
    assert not (unpacked / ".venv").exists()


def test_the_light_client_brings_no_server(light: Environment) -> None:
    assert light.says("import gradebox; print(gradebox.StringThread([('user', 'q')]).completion())") == "None"
    assert light.says("import gradebox; print(gradebox.Client.__name__)") == "Client"
    assert light.finds(*ROOMS, "fastapi", "redis", "docker", "gradebox") == "gradebox"


def test_the_light_client_has_its_commands(light: Environment) -> None:
    done = light.run("gradebox", "--help")
    assert done.returncode == 0, done.stderr
    assert "validate" in done.stdout
    assert "serve" in done.stdout
    unheard = light.run("gradebox", "graders", "list", "--url", "http://127.0.0.1:1", "--api-key", "x")
    assert unheard.returncode == 2
    assert "Traceback" not in unheard.stderr


@pytest.mark.parametrize("command", ["serve", "api", "worker", "run /dev/null", "doctor", "selftest"])
def test_the_light_client_says_what_a_server_needs(command: str, light: Environment) -> None:
    done = light.run("gradebox", *command.split())
    assert done.returncode == 1
    assert "pip install 'gradebox[server]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def url(server: Environment) -> Iterator[str]:
    """Starts a service from the installed package and yields its URL."""
    command = [str(server.folder / "bin" / "gradebox"), "serve", "--port", "0", "--workers", "1"]
    process = subprocess.Popen(
        command, cwd=server.folder, env=server.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError(process.stderr.read())
    yield line.split()[4]
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.service
@pytest.mark.sandbox
def test_the_server_serves_from_any_folder(url: str, server: Environment) -> None:
    (server.folder / "grader.py").write_text(GRADER)
    (server.folder / "threads.jsonl").write_text('{"completion": "4"}\n{"completion": "5"}\n')
    (server.folder / "api.py").write_text("raise SystemExit('a file of the user was taken for a room')\n")
    created = server.run("gradebox", "graders", "create", "four", "grader.py", "--url", url)
    assert created.returncode == 0, created.stderr
    scored = server.run("gradebox", "score", "four", "threads.jsonl", "-o", "out.jsonl", "--url", url)
    assert scored.returncode == 0, scored.stderr
    outcomes = [json.loads(line) for line in (server.folder / "out.jsonl").read_text().splitlines()]
    assert [(outcome["score"], outcome["reason"]) for outcome in outcomes] == [(1.0, "looked"), (0.0, "looked")]


@pytest.mark.sandbox
def test_the_pages_come_with_it(url: str, built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for part in ("static/editor.js", "static/htmx.js", "static/LICENSES.txt", "templates/base.html"):
        assert f"gradebox/_server/ui/{part}" in names
    with urllib.request.urlopen(f"{url}/") as page:
        assert page.url == f"{url}/ui/sign-in?next=%2Fui%2F"
        said = page.read().decode()
    script = re.search(r'src="(/ui/static/pages.js[^"]*)"', said)
    assert script is not None
    with urllib.request.urlopen(url + script[1]) as found:
        assert b"code-editor" in found.read()


def test_rooms_are_on_the_path_of_server_processes_alone(server: Environment) -> None:
    (server.folder / "long.py").write_text("#" * 100_000)
    refused = server.run("gradebox", "run", "long.py")
    assert refused.returncode == 1, refused.stderr
    assert "the source is 100000 bytes long" in refused.stdout
    assert server.finds(*ROOMS, "gradebox") == "gradebox"
