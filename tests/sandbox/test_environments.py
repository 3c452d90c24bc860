"""Tests of environments: they are unpacked once, checked and shared, and sandboxes are started for them."""

import hashlib
import io
import os
import shutil
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from unittest.mock import Mock, call

import anyio
import pytest

from sandbox.backends.bubblewrap import Bubblewrap
from sandbox.environments import BUILT_FOR, MARK, EnvironmentFolders
from sandbox.errors import InfrastructureError, Unusable
from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool
from sandbox.settings import SandboxSettings
from tests.backends import backend_of
from tests.sandbox import scoring
from tests.wheels import folder_for_environments, tar_of

FILES = {MARK: BUILT_FOR, "one.py": "VALUE = 1.0\n", "two/__init__.py": "VALUE = 2.0\n"}
ONE = "import one\n\nasync def grade(thread):\n    return one.VALUE\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_for_environments() as folder:
        yield folder


class Archives:
    """Archives in memory, and a list of all fetches."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.fetched: list[str] = []

    def add(self, files: dict[str, str], *more: tarfile.TarInfo) -> str:
        packed = tar_of(files, *more)
        sha256 = hashlib.sha256(packed).hexdigest()
        self.kept[sha256] = packed
        return sha256

    def fetch(self, sha256: str) -> IO[bytes]:
        self.fetched.append(sha256)
        if sha256 not in self.kept:
            raise FileNotFoundError(sha256)
        return io.BytesIO(self.kept[sha256])


@pytest.fixture
def archives() -> Archives:
    return Archives()


def folders(folder: Path, archives: Archives, **settings: object) -> EnvironmentFolders:
    made = EnvironmentFolders(SandboxSettings.model_validate({"environments_dir": folder, **settings}))
    made.fetch_from(archives.fetch, lambda _: None)
    return made


def test_it_is_unpacked_once(folder: Path, archives: Archives) -> None:
    sha256 = archives.add(FILES)
    before = os.umask(0o077)
    try:
        found = [folders(folder, archives).find(sha256) for _ in range(2)]
    finally:
        os.umask(before)

    assert found == [folder / sha256] * 2
    assert archives.fetched == [sha256]
    assert (found[0] / "two/__init__.py").read_text() == "VALUE = 2.0\n"
    modes = {path.stat().st_mode & 0o777 for path in (found[0], *found[0].rglob("*"))}
    assert modes == {0o755, 0o644}


def test_it_waits_for_no_other_disk(folder: Path, archives: Archives, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sync", lambda: pytest.fail("a network disk that is away would not answer"))
    own = folders(folder, archives)
    own.find(archives.add(FILES))
    with own.staging() as staged:
        own.adopt(staged, "0" * 64)
    assert (folder / ("0" * 64)).is_dir()


def test_what_was_changed_or_cut_off_is_not_used(folder: Path, archives: Archives) -> None:
    sha256, other = archives.add(FILES), archives.add({**FILES, "one.py": "VALUE = 9.0\n"})
    whole, damaged = archives.kept[sha256], Mock()
    for content in (archives.kept[other], whole[:1000], b"", b"x" * 512 + whole[512:]):
        archives.kept[sha256] = content
        own = folders(folder, archives)
        own.fetch_from(archives.fetch, damaged)
        with pytest.raises(Unusable, match="changed or cut off in the service's storage: update the environment with"):
            own.find(sha256)
    assert damaged.mock_calls == [call(sha256)] * 4
    with pytest.raises(Unusable, match="gone from the service's storage: update the environment with the same"):
        folders(folder, archives).find("0" * 64)
    assert not [path for path in folder.iterdir() if path.is_dir()]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_only_files_are_unpacked(folder: Path, archives: Archives, kind: bytes) -> None:
    member = tarfile.TarInfo("other")
    member.type, member.linkname = kind, "/etc/passwd"
    with pytest.raises(InfrastructureError, match="other than files"):
        folders(folder, archives).find(archives.add(FILES, member))


def test_nothing_is_unpacked_elsewhere(folder: Path, archives: Archives) -> None:
    with pytest.raises(InfrastructureError):
        folders(folder, archives).find(archives.add({**FILES, "../outside.py": "x"}))
    assert not (folder / "outside.py").exists()


def test_a_folder_that_cannot_be_made_is_named_with_its_setting() -> None:
    folders = EnvironmentFolders(SandboxSettings(environments_dir=Path("/proc/nothing")))
    with pytest.raises(OSError, match=r"/proc/nothing \(GRADEBOX_ENVIRONMENTS_DIR\)"), folders.staging():
        pass


def test_it_is_bounded(folder: Path, archives: Archives) -> None:
    sha256 = archives.add({**FILES, "large": "x" * (3 << 20)})
    with pytest.raises(InfrastructureError, match="GRADEBOX_ENVIRONMENT_MB"):
        folders(folder, archives, environment_mb=2).find(sha256)
    assert folders(folder, archives, environment_mb=4).find(sha256)


def test_one_for_another_python_is_not_used(folder: Path, archives: Archives) -> None:
    sha256 = archives.add({**FILES, MARK: "cpython-27 vax"})
    with pytest.raises(Unusable, match="cpython-27 vax"):
        folders(folder, archives).find(sha256)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/etc", "A" * 64, "a" * 63])
def test_only_a_hash_names_one(folder: Path, archives: Archives, name: str) -> None:
    with pytest.raises(InfrastructureError):
        folders(folder, archives).find(name)


def test_what_nobody_uses_is_removed(folder: Path, archives: Archives) -> None:
    own = folders(folder, archives)
    used, unused = own.find(archives.add(FILES)), own.find(archives.add({**FILES, "three.py": ""}))
    (folder / ".build-left").mkdir()
    for path in folder.iterdir():
        if path.is_dir():
            os.utime(path, (1, time.time() - 15 * 24 * 3600))
    own.find(used.name)

    assert sorted(own.sweep()) == sorted([unused.name, ".build-left"])
    assert used.is_dir()
    assert own.find(unused.name) == unused  # it is unpacked again


def test_what_belongs_to_a_deleted_environment_is_removed_after_a_day(folder: Path, archives: Archives) -> None:
    own = folders(folder, archives)
    needed, deleted = own.find(archives.add(FILES)), own.find(archives.add({**FILES, "three.py": ""}))
    for hours, swept in ((23, []), (25, [deleted.name])):
        for path in (needed, deleted):
            os.utime(path, (1, time.time() - hours * 3600))
        assert own.sweep({needed.name}.__contains__) == swept
    assert needed.is_dir()


def test_what_a_killed_build_left_is_removed_within_hours(folder: Path, archives: Archives) -> None:
    own = folders(folder, archives)
    left, others = folder / ".build-left", folder / "of-the-operator"
    with own.staging() as staged:
        for path in (left, others, staged):
            path.mkdir(exist_ok=True)
            os.utime(path, (1, time.time() - 2 * 3600))
        assert own.sweep() == [left.name]
        assert staged.is_dir()
    os.utime(others, (1, 1))
    assert own.sweep() == []
    assert others.is_dir()


@pytest.fixture
def small_pool(folder: Path, archives: Archives) -> Iterator[Pool]:
    """A pool of at most two sandboxes."""
    settings = SandboxSettings(environments_dir=folder, most_sandboxes=2, warm_sandboxes=2, load_s=20)
    backend = backend_of("bubblewrap")(settings)
    assert isinstance(backend, Bubblewrap)
    with Pool(backend, settings) as pool:
        pool.environments.fetch_from(archives.fetch, lambda _: None)
        yield pool


def score(pool: Pool, source: GraderSource) -> float | None:
    (outcome,) = scoring.score(pool, source, [scoring.line("a")])
    assert outcome.error is None, outcome
    return outcome.score


@pytest.mark.sandbox
def test_sandboxes_are_started_for_it_and_kept(small_pool: Pool, archives: Archives) -> None:
    first, second = archives.add(FILES), archives.add({**FILES, "one.py": "VALUE = 3.0\n"})
    plain = GraderSource("async def grade(thread): return 0.5")

    assert score(small_pool, GraderSource(ONE, environment=first)) == 1.0  # though empty ones take the places
    hits = small_pool.counts.hits._value.get()
    assert score(small_pool, GraderSource(ONE, environment=first)) == 1.0
    assert small_pool.counts.hits._value.get() == hits + 1
    assert score(small_pool, GraderSource(ONE, environment=second)) == 3.0  # the same source, but another grader
    assert score(small_pool, plain) == 0.5
    assert score(small_pool, GraderSource(ONE, environment=first)) == 1.0
    assert small_pool.alive <= 2


@pytest.mark.sandbox
def test_programs_of_a_grader_have_its_packages(small_pool: Pool, archives: Archives) -> None:
    """A program that tests a completion did not find them, so that each completion seemed to be wrong."""
    text = """
import subprocess, sys

def ask(*options):
    code = "import sys, one; print(one.VALUE); assert sys.path[-1].endswith('environment')"
    return float(subprocess.run([sys.executable, *options, "-c", code], env={}, capture_output=True).stdout or 0.0)

async def grade(thread):
    return 10 * ask() + ask("-I")
"""
    # No module of the standard library is hidden by one of a package.
    sha256 = archives.add({**FILES, "json.py": "raise ValueError\n"})
    assert score(small_pool, GraderSource(text, environment=sha256)) == 11.0


@pytest.mark.sandbox
def test_numpy_can_be_imported_without_putenv(small_pool: Pool, archives: Archives) -> None:
    """LiveCodeBench's check takes `os.putenv` away before it runs a completion, whose first lines import numpy. Where
    a trainer had imported it before, that works; here each completion scored 0.0.
    """
    numpy = "import os\nif 'OPENBLAS_MAIN_FREE' not in os.environ:\n    os.putenv('OPENBLAS_MAIN_FREE', '1')\n"
    source = "import os\nos.putenv = None\n\nasync def grade(thread):\n    import numpy\n    return 1.0\n"
    sha256 = archives.add({**FILES, "numpy.py": numpy})
    assert score(small_pool, GraderSource(source, environment=sha256)) == 1.0


@pytest.mark.sandbox
def test_packages_among_its_data_can_be_imported(small_pool: Pool, archives: Archives) -> None:
    """IFEval's checks import langdetect, which has no wheel, at the top of their module."""
    text = """
import subprocess, sys
import numbers_of_words, one

def ask():
    code = "import numbers_of_words, one; print(numbers_of_words.VALUE)"
    return float(subprocess.run([sys.executable, "-I", "-c", code], capture_output=True).stdout or 0.0)

async def grade(thread):
    return 10 * ask() + numbers_of_words.VALUE + one.VALUE
"""
    data = {
        ".data/numbers_of_words/__init__.py": "VALUE = 3.0\n",
        ".data/one.py": "",
        ".data/json.py": "raise ValueError",
    }
    sha256 = archives.add({**FILES, **data})
    assert score(small_pool, GraderSource(text, environment=sha256)) == 34.0
    plain = "from numbers_of_words import VALUE\n\nasync def grade(thread):\n    return VALUE\n"
    assert small_pool.prove(GraderSource(plain, environment=sha256)).isolation == "completion"  # it may run text
    report = small_pool.prove(GraderSource(ONE.replace("one", "two"), environment=sha256))
    assert (report.isolation, [text for text in report.warnings if "annotate" not in text]) == ("batch", [])


TQDM = """
import multiprocessing, os, threading

os.makedirs(os.environ.get("TORCHINDUCTOR_CACHE_DIR", "/tmp/inductor"), exist_ok=True)  # as torch does

class TqdmDefaultWriteLock:
    @classmethod
    def create(cls):
        if not hasattr(cls, "mp_lock"):
            cls.mp_lock = multiprocessing.RLock()

class tqdm:
    monitor_interval = 10

    def __init__(self):
        TqdmDefaultWriteLock.create()
        if self.monitor_interval:
            threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


@pytest.mark.sandbox
def test_a_progress_bar_in_the_module_body_leaves_nothing_open(small_pool: Pool, archives: Archives) -> None:
    """A model that was loaded there with tqdm's bar was loaded anew for each completion: 200 s in place of 2 s."""
    source = "import tqdm.std\n\ntqdm.std.tqdm()\n\nasync def grade(thread):\n    return 1.0\n"
    sha256 = archives.add({**FILES, "tqdm/__init__.py": "", "tqdm/std.py": TQDM})
    report = small_pool.prove(GraderSource(source, environment=sha256, isolation="completion"))
    assert [text for text in report.warnings if "module body" in text] == []


def test_without_one_there_is_none(small_pool: Pool, archives: Archives) -> None:
    score(small_pool, GraderSource(ONE, environment=archives.add(FILES)))
    looks = "import os\nasync def grade(thread): return float(len(os.listdir('/usr/lib/environment')))"
    assert score(small_pool, GraderSource(looks)) == 0.0
    report = small_pool.prove(GraderSource(ONE))
    assert report.failed is not None and "No module named 'one'" in report.failed.message


@pytest.mark.sandbox
def test_one_that_cannot_be_mounted_troubles_no_other(
    small_pool: Pool, archives: Archives, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(small_pool.environments, "find", lambda _: tmp_path / "missing")
    with pytest.raises(InfrastructureError):
        score(small_pool, GraderSource(ONE, environment="0" * 64))
    assert small_pool.trouble() is None
    assert score(small_pool, GraderSource("async def grade(thread): return 0.5")) == 0.5


@pytest.mark.sandbox
def test_one_that_a_sandbox_uses_is_not_removed(folder: Path, archives: Archives) -> None:
    """The clock may have jumped, for example because the machine was suspended."""
    own, sha256 = folders(folder, archives), archives.add(FILES)
    settings = SandboxSettings(environments_dir=folder, load_s=20)
    with Pool(backend_of("bubblewrap")(settings), settings) as pool:
        pool.environments.fetch_from(archives.fetch, lambda _: None)
        score(pool, GraderSource(ONE, environment=sha256))
        os.utime(folder / sha256, (1, 1))
        assert own.sweep() == []
    assert own.sweep() == [sha256]


@pytest.mark.sandbox
def test_one_that_somebody_removes_makes_no_score_and_is_unpacked_again(
    small_pool: Pool, archives: Archives, folder: Path
) -> None:
    imports = "try:\n        import two\n    except ImportError:\n        return 0.0\n    return two.VALUE"
    sha256 = archives.add(FILES)
    source = GraderSource(f"async def grade(thread):\n    {imports}", "completion", environment=sha256)
    with small_pool.grading(source) as grading:
        grading.load()
        shutil.rmtree(folder / sha256)
        with pytest.raises(InfrastructureError, match="the files of a sandbox in use were removed"):
            grading.score(b'{"completion": ""}', 0, "a@1")
        assert grading.score(b'{"completion": ""}', 0, "a@1")[0].score == 2.0


@pytest.mark.sandbox
@pytest.mark.parametrize("also", [(), ("sniffio",)], ids=["anyio alone", "with sniffio"])
def test_anyio_runs_a_loop_or_waits_in_one(small_pool: Pool, archives: Archives, also: tuple[str, ...]) -> None:
    installed = Path(anyio.__file__).parents[1]
    paths = [path for name in ("anyio", "idna", *also) for path in (installed / name).rglob("*.py")]
    paths.append(installed / "typing_extensions.py")
    sha256 = archives.add({MARK: BUILT_FOR} | {str(path.relative_to(installed)): path.read_text() for path in paths})
    source = """
import anyio
async def half():
    await anyio.sleep(0.001)
    return 0.5
async def grade(thread):
    try:
        return anyio.run(half) if thread.completion() == "run" else await half() / 2
    except RuntimeError:
        return anyio.run(half) if thread.completion() == "either" else 0.0
"""
    completions = (b"either", b"run", b"run", b"wait", b"run", b"wait")
    lines = b"".join(b'{"completion": "%b"}\n' % each for each in completions)
    with small_pool.grading(GraderSource(source, "batch", environment=sha256)) as grading:
        outcomes = grading.score(lines, 0, "a@1")
    assert [outcome.score for outcome in outcomes] == [0.25, 0.5, 0.5, 0.25, 0.5, 0.25]
