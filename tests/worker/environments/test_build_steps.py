"""Tests of builds of the tests' wheels."""

import io
import os
import random
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gradebox.schemas import Isolation
from sandbox.grader_source import GraderSource
from sandbox.limits import MIB
from sandbox.pool.pool import Pool
from tests.wheels import list_files, make_wheel, zip_of
from tests.worker.environments.conftest import Builds, Kept
from worker.environments import installed_files, uv
from worker.environments.compiler import PART
from worker.environments.settings import EnvironmentSettings
from worker.environments.uv import BuildFailed, Uv, environment_of

pytestmark = pytest.mark.sandbox


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    make_wheel(tmp_path / "wheels", "alpha", {"alpha.py": "import beta\nVALUE = beta.VALUE\n"}, requires=("beta>=1",))
    make_wheel(tmp_path / "wheels", "beta", {"beta/__init__.py": "VALUE = 0.5\n"})
    return tmp_path / "wheels"


def test_it_is_locked_with_all_that_it_needs(builds: Builds, builder: Pool, wheels: Path) -> None:
    made = builds(wheels, ["alpha"])

    assert [(one.name, one.version, len(one.sha256)) for one in made.lock] == [
        ("alpha", "1.0", 1),
        ("beta", "1.0", 1),
    ]
    source = GraderSource("import alpha\nasync def grade(thread):\n    return alpha.VALUE", environment=made.sha256)
    with builder.grading(source) as grading:
        assert grading.score(b'{"completion": ""}', 0, "a@1")[0].score == 0.5


def test_equal_content_has_one_name(builds: Builds, kept: Kept, wheels: Path) -> None:
    first, again = builds(wheels, ["alpha"]), builds(wheels, ["alpha", "beta==1.0"])
    assert first.sha256 == again.sha256
    with tarfile.open(fileobj=io.BytesIO(kept.archives[first.sha256])) as archive:
        members = archive.getmembers()
    assert {(one.isreg(), one.uid, one.mtime, one.mode) for one in members} == {(True, 0, 0, 0o644)}
    assert [one.name for one in members] == sorted(one.name for one in members)
    assert "__pycache__/alpha.cpython" in "".join(one.name for one in members)


def test_what_has_no_wheel_cannot_be_built(builds: Builds, wheels: Path) -> None:
    source = "from setuptools import setup\nsetup(name='gamma', version='1')\n"
    (wheels / "gamma").mkdir()
    with tarfile.open(wheels / "gamma" / "gamma-1.0.tar.gz", "w:gz") as archive:
        for name, text in (("setup.py", source), ("PKG-INFO", "Metadata-Version: 2.1\nName: gamma\nVersion: 1.0\n")):
            member = tarfile.TarInfo(f"gamma-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    list_files(wheels, "gamma")
    with pytest.raises(BuildFailed, match="no usable wheels"):
        builds(wheels, ["gamma"])


def test_what_uv_says_tells_nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "of-the-operator"))
    (tmp_path / "uv").mkdir()
    with pytest.raises(BuildFailed) as failed:
        Uv(tmp_path / "uv", EnvironmentSettings(), 100).resolve(["beta==0.5"], lambda: None)
    assert "(a path)" in str(failed.value)
    assert str(tmp_path.parent) not in str(failed.value)


@pytest.mark.parametrize("needs", ["beta @ {}", "beta @ https://example.org/beta-1.0-py3-none-any.whl"])
def test_a_package_brings_nothing_from_elsewhere(builds: Builds, wheels: Path, needs: str) -> None:
    file = (wheels / "beta" / "beta-1.0-py3-none-any.whl").as_uri()
    make_wheel(wheels, "leads", {"leads.py": ""}, requires=(needs.format(file),))
    with pytest.raises(BuildFailed, match="URL"):
        builds(wheels, ["leads"])


def test_a_wheel_that_was_changed_since_it_was_locked_is_refused(wheels: Path, tmp_path: Path) -> None:
    runs = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        runs.append(uv.Uv(folder, EnvironmentSettings(environments_index=wheels.as_uri()), 100))
    locked = runs[0].resolve(["beta"], lambda: None)
    make_wheel(wheels, "beta", {"beta/__init__.py": "VALUE = 0.9\n"})
    with pytest.raises(BuildFailed, match=r"[Hh]ash"):
        runs[1].install(locked, tmp_path / "target", lambda: None)


def test_of_a_file_in_several_wheels_the_same_one_stays(tmp_path: Path) -> None:
    names, found = ["one", "two", "three", "four"], set()
    for name in names:
        make_wheel(tmp_path / "wheels", name, {f"shared/{number}.py": f"NAME = {name!r}\n" for number in range(300)})
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = Uv(folder, EnvironmentSettings(environments_index=(tmp_path / "wheels").as_uri()), 100)
        made.install(made.resolve(names, lambda: None), folder / "target", lambda: None)
        found.add("".join((folder / f"target/shared/{number}.py").read_text() for number in range(300)))
    assert len(found) == 1


def test_the_operator_names_the_packages(builds: Builds, wheels: Path) -> None:
    assert builds(wheels, ["alpha"], environment_packages="Alpha, beta").lock
    with pytest.raises(BuildFailed, match="beta may not be"):
        builds(wheels, ["alpha"], environment_packages="alpha")


def test_too_large_is_refused(builds: Builds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(tmp_path, "bomb", {"bomb/__init__.py": "", "bomb/zeros.txt": "0" * (64 * MIB)})  # 64 KiB as a wheel
    monkeypatch.setenv("GRADEBOX_ENVIRONMENT_MB", "8")
    with pytest.raises(BuildFailed, match=r"larger than the 8 MiB .* \(GRADEBOX_ENVIRONMENT_MB\)"):
        builds(tmp_path, ["bomb"])


def test_too_many_files_are_refused(builds: Builds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(tmp_path, "many", {f"many/{number}.txt": "" for number in range(50)})
    monkeypatch.setattr(installed_files, "ENVIRONMENT_FILES", 40)
    with pytest.raises(BuildFailed, match="40 files"):
        builds(tmp_path, ["many"])


def test_too_many_folders_are_refused(builds: Builds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(tmp_path, "deep", {f"deep/{number}/a/b/c/d/e/f/x.txt": "" for number in range(30)})
    monkeypatch.setattr(uv, "ENVIRONMENT_FILES", 40)
    with pytest.raises(BuildFailed, match="40 files and folders"):
        builds(tmp_path, ["deep"])


def test_a_disk_that_is_nearly_full_is_left_alone(
    builds: Builds, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADEBOX_RESERVE_MB", str(1 << 40))
    with pytest.raises(BuildFailed, match="nearly full"):
        builds(wheels, ["beta"])
    with pytest.raises(BuildFailed, match="nearly full"):
        builds(wheels, [], zip_of({"words.txt": "a"}))


def test_a_package_takes_the_place_of_no_module_of_python(builds: Builds, builder: Pool, tmp_path: Path) -> None:
    make_wheel(tmp_path, "sly", {"sly.py": "", "_winapi.py": "", "tkinter/__init__.py": "", "turtle.py": ""})
    made = builds(tmp_path, ["sly"])
    text = "import subprocess, sly\ntry:\n    import tkinter\nexcept ImportError:\n    tkinter = None\n"
    source = GraderSource(f"{text}async def grade(thread):\n    return float(tkinter is None)", environment=made.sha256)
    with builder.grading(source) as grading:
        assert grading.score(b'{"completion": ""}', 0, "a@1")[0].score == 1.0


_OURS = ("sandbox", "validators", "dotpromptz_handlebars", "start", "zygote")
_LOADS_OURS = """
import sandbox, validators, dotpromptz_handlebars, start, zygote
from sandbox.guest import VALUE
from gradebox.judges.templates import Template

FIRST = Template("{{a}}").render({"a": 1})  # loads the guest's copy of the engine
"""
_GRADES = """
async def grade(thread):
    import validators.guest
    return VALUE if (validators.guest.VALUE, FIRST) == (0.5, "1") else 0.0
"""
_GRADES_GROUPS = """
async def grade(threads: list[StringThread]) -> list[float]:
    return [VALUE for _ in threads]
"""
_ASKS = """
from gradebox import Model

judge = Model("judge")

async def grade(thread):
    return await judge.chat("?")
"""


@pytest.fixture(scope="module")
def named_like_ours(builds: Builds, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The SHA-256 of a wheel with packages that have the names of the guest's in this repository."""
    index = tmp_path_factory.mktemp("named-like-ours")
    empty = {f"{name}/__init__.py": "" for name in _OURS}
    make_wheel(
        index, "validators", {**empty, "sandbox/guest.py": "VALUE = 0.75\n", "validators/guest.py": "VALUE = 0.5\n"}
    )
    return builds(index, ["validators"]).sha256


@pytest.mark.parametrize("isolation", ["batch", "completion"])
@pytest.mark.parametrize(
    ("source", "line"),
    [(_GRADES, b'{"completion": "a"}'), (_GRADES_GROUPS, b'{"prompt": "?", "completions": ["a", "b"]}')],
    ids=["threads", "groups"],
)
def test_a_package_may_have_the_name_of_one_of_ours(
    builder: Pool, named_like_ours: str, isolation: Isolation, source: str, line: bytes
) -> None:
    with builder.grading(GraderSource(_LOADS_OURS + source, isolation, environment=named_like_ours)) as grading:
        outcomes = grading.score(line + b"\n" + line, 0, "a@1")
    assert [outcome.score for outcome in outcomes] == [0.75, 0.75], outcomes


@pytest.mark.parametrize("isolation", ["batch", "completion"])
def test_the_guest_imports_its_own_modules_after_the_grader_has_run(
    builder: Pool, named_like_ours: str, isolation: Isolation
) -> None:
    with builder.grading(GraderSource(_LOADS_OURS + _ASKS, isolation, environment=named_like_ours)) as grading:
        loaded = grading.load()
        assert (loaded.isolation is not None, loaded.asks) == (True, ("model:judge",)), loaded


def test_a_module_whose_name_is_long_stays_without_byte_code(builds: Builds, tmp_path: Path) -> None:
    long = "m" * 245
    make_wheel(tmp_path, "long", {f"{long}.py": "", "short_one.py": ""})
    assert builds(tmp_path, ["long"]).files


def test_deep_folders_are_refused_and_removed(builds: Builds, unpacked: Path, tmp_path: Path) -> None:
    make_wheel(tmp_path, "deep", {"deep.py": "", "d/" * 1500 + "module.py": ""})  # too deep for recursion in Python
    with pytest.raises(BuildFailed, match="folders of more than"):
        builds(tmp_path, ["deep"])
    assert [path.name for path in unpacked.iterdir() if path.name.startswith(".build")] == []


def test_a_module_with_warnings_and_one_of_several_parts_are_compiled(
    builds: Builds, unpacked: Path, tmp_path: Path
) -> None:
    noise = random.Random(1).randbytes(3 * PART).hex()  # packed, it takes half of this
    make_wheel(tmp_path, "warns", {"warns.py": "x = 1 is 1\n", "long.py": f"x = '{noise}'\n", "more.py": "x = 1\n"})
    folder = unpacked / builds(tmp_path, ["warns"]).sha256
    for module in ("warns", "long", "more"):
        assert (folder / f"__pycache__/{module}.{sys.implementation.cache_tag}.pyc").exists()


def test_byte_code_takes_no_more_than_there_is_room_for(
    builds: Builds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folded(module: int) -> str:  # 2 MiB of constants, which the compiler computes from 12 KiB
        return "".join(f"x = 'a{module}{number:03}' * 800\n" for number in range(600))

    make_wheel(tmp_path, "folded", {f"module_{module}.py": folded(module) for module in range(6)})
    monkeypatch.setenv("GRADEBOX_ENVIRONMENT_MB", "8")
    assert 5 * MIB < builds(tmp_path, ["folded"]).size_bytes <= 8 * MIB  # byte code of some modules, not of all


def test_no_index_is_asked_where_pip_would_ask_none(
    builds: Builds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make_wheel(tmp_path / "own", "alpha", {"alpha.py": ""}).parent
    make_wheel(tmp_path / "public", "alpha", {"alpha.py": ""}, "9.0")  # another package with the same name
    monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "public").as_uri())
    monkeypatch.setenv("PIP_FIND_LINKS", str(own))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert [package.version for package in builds(None, ["alpha"]).lock] == ["1.0"]


def test_entry_points_write_nothing_elsewhere(builds: Builds, tmp_path: Path) -> None:
    aim = tmp_path / "aim"
    make_wheel(
        tmp_path, "aims", {"aims.py": "", "aims-1.0.dist-info/entry_points.txt": f"[console_scripts]\n{aim} = aims:f\n"}
    )
    with pytest.raises(BuildFailed):
        builds(tmp_path, ["aims"])
    assert not aim.exists()


@pytest.mark.parametrize("version", ["0.9.30", "0.11.14"])
def test_versions_of_uv_that_write_elsewhere_are_not_installed(version: str) -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    [uv] = [one for one in map(Requirement, project["optional-dependencies"]["server"]) if one.name == "uv"]
    assert not uv.specifier.contains(version)


@pytest.mark.parametrize(
    "files",
    [
        {".gradebox-environment/a": "x"},
        {"a/__pycache__/__pycache__/b.py": ""},
        {"a/b.pyc/c.pyc": ""},
        {"odd-1.0.dist-info/direct_url.json/a": ""},
    ],
    ids=["mark", "byte code", "compiled", "note"],
)
def test_what_has_the_name_of_a_removed_file_is_removed(
    builds: Builds, unpacked: Path, tmp_path: Path, files: dict[str, str]
) -> None:
    make_wheel(tmp_path, "odd", {"odd.py": "", "sitecustomize.cpython-311-x86_64-linux-gnu.so": "", **files})
    folder = unpacked / builds(tmp_path, ["odd"]).sha256
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {path for path in left if "dist-info" not in path} == {
        *("odd.py", f"__pycache__/odd.{sys.implementation.cache_tag}.pyc", ".gradebox-environment")
    }
    assert not any("direct_url" in path for path in left)


def test_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(BuildFailed, match="neither"):
        installed_files.tidy(tmp_path)


def test_uv_hears_of_indexes_and_of_nothing_else() -> None:
    service = {
        "HOME": "/home/a", "GRADEBOX_API_KEY": "secret", "AWS_SECRET_ACCESS_KEY": "secret", "LD_PRELOAD": "/a.so",
        "PYTHONPATH": "/a", "UV_INDEX": "https://a", "UV_INDEX_OWN_PASSWORD": "b", "PIP_FIND_LINKS": "/wheels",
        "UV_KEYRING_PROVIDER": "subprocess", "UV_NO_BINARY": "1", "UV_TORCH_BACKEND": "cpu",
    }  # fmt: skip
    told = environment_of(service, EnvironmentSettings(environments_index=""))
    assert set(told) == {"HOME", "UV_INDEX", "UV_INDEX_OWN_PASSWORD", "UV_FIND_LINKS", "UV_TORCH_BACKEND"}
    named = environment_of(service, EnvironmentSettings(environments_index="https://own"))
    assert named == {"HOME": "/home/a", "UV_DEFAULT_INDEX": "https://own", "UV_NO_CONFIG": "1"}


@pytest.mark.parametrize("index", ["", "https://own"])
@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "NO_PROXY"])
def test_any_index_is_reached_by_the_proxy(index: str, name: str) -> None:
    assert environment_of({name: "a"}, EnvironmentSettings(environments_index=index))[name] == "a"


def test_each_folder_that_pip_is_told_of_is_one_for_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [make_wheel(tmp_path / name, name, {f"{name}.py": ""}).parent for name in ("one", "two")]
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_FIND_LINKS", " ".join(map(str, folders)))
    monkeypatch.setenv("PIP_INDEX_URL", tmp_path.as_uri())
    folder = tmp_path / "uv"
    folder.mkdir()
    found = Uv(folder, EnvironmentSettings(environments_index=""), 64).resolve(["one", "two"], lambda: None)
    assert [(one.name, one.version) for one in found] == [("one", "1.0"), ("two", "1.0")]
