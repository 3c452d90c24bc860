"""Tests of zip files that projects send: what is unpacked, and what is refused."""

import io
import random
import stat
import struct
import tarfile
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import pytest

from sandbox.environments import DATA
from sandbox.grader_source import GraderSource
from sandbox.limits import ENVIRONMENT_FILES, MIB
from sandbox.pool.pool import Pool
from tests.wheels import make_wheel, zip_of
from tests.worker.environments.conftest import Builds, Kept
from worker.environments import data_zip
from worker.environments.data_zip import DataRefused, check, unpack
from worker.environments.uv import BuildFailed

READS = """
import os
from pathlib import Path

async def grade(thread):
    return float((Path(os.environ["ENVIRONMENT_DATA"]) / thread.completion()).read_text())
"""


def entries(names: Iterable[str | zipfile.ZipInfo], method: int = zipfile.ZIP_STORED) -> io.BytesIO:
    """A zip file of these entries, with their names unchanged."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about duplicate names
        for name in names:
            archive.writestr(name, "x")
    return file


def info(name: str, mode: int = 0) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo("placeholder")
    entry.filename = entry.orig_filename = name
    entry.external_attr = mode << 16
    return entry


def unpacked(file: io.BytesIO, folder: Path, most_mb: int = 10) -> dict[str, str]:
    unpack(file, folder / "data", most_mb, lambda: None)
    paths = [path for path in (folder / "data").rglob("*") if path.is_file()]
    return {path.relative_to(folder / "data").as_posix(): path.read_text() for path in paths}


def test_what_was_sent_is_there(tmp_path: Path) -> None:
    files = {"corpora/stopwords/english": "a\nthe\n", "größe.txt": "1", "words (old).txt": ""}
    assert unpacked(io.BytesIO(zip_of(files)), tmp_path) == files


def test_folders_of_their_own_and_a_comment_do_no_harm(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("empty")
        archive.mkdir("some")
        archive.writestr("some/file", "1")
        archive.comment = b"of a commit"
    assert unpacked(file, tmp_path) == {"some/file": "1"}


@pytest.mark.parametrize(
    "name",
    [
        "../outside", "a/../../outside", "/etc/passwd", "a//b", "./a", "a/.", "..", "a\\..\\b", "C:\\x", "a\0b", "a\nb",
        "\x1b[2J", "a\u202eb", "x" * 251, "é" * 126, "x" * 10_000, "/".join("a" * 17),
    ],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_or_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataRefused, match=r"rename it|write it without|are allowed"):
        unpacked(entries(["fine", info(name)]), tmp_path)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK])
def test_only_files_are_taken(tmp_path: Path, kind: int) -> None:
    with pytest.raises(DataRefused, match="a link or a device"):
        unpacked(entries(["fine", info("other", kind | 0o777)]), tmp_path)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "names",
    [
        ("a", "a"), ("words", "WORDS"), ("straße", "STRASSE"), ("caf\u00e9", "cafe\u0301"), ("a", "a/b"), ("A/b", "a"),
        ("A/b", "a/c"), ("a/", "a"),
    ],
)  # fmt: skip
def test_two_paths_that_a_disk_takes_for_one_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(DataRefused, match="twice"):
        check(entries([info(name) for name in names]), 10)


def test_a_bomb_is_refused_by_what_it_says(tmp_path: Path) -> None:
    file = io.BytesIO(zip_of({"zeros": "0" * (64 * MIB)}))
    assert len(file.getvalue()) < MIB
    with pytest.raises(DataRefused, match="64 MiB unpacked"):
        unpacked(file, tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_bomb_that_says_less_than_it_holds_is_cut_off(tmp_path: Path) -> None:
    packed = zip_of({"zeros": "0" * (64 * MIB)})
    lies = packed.replace(struct.pack("<L", 64 * MIB), struct.pack("<L", 1000))
    assert lies != packed
    with pytest.raises(DataRefused):
        unpacked(io.BytesIO(lies), tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= 1000


def test_entries_that_share_their_bytes_count_each(tmp_path: Path) -> None:
    """The bomb has many files at the same place of the zip file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", "0" * MIB)
        for number in range(100):
            entry = info(f"zeros{number}")
            first = archive.infolist()[0]
            for name in ("header_offset", "CRC", "compress_size", "file_size", "compress_type", "create_version"):
                setattr(entry, name, getattr(first, name))
            archive.filelist.append(entry)
        archive._didModify = True  # type: ignore[attr-defined]
    with pytest.raises(DataRefused, match="101 MiB unpacked"):
        check(file, 10)


def directory_of(number: int, locator: bytes = b"") -> io.BytesIO:
    """A zip file whose directory lists this many empty files."""
    head = b"PK\1\2" + struct.pack("<4B4H3L5H2L", 20, 3, 20, 0, 0, 0, 0, 0x21, 0, 0, 0, 35, 0, 0, 0, 0, 0, 0)
    listed = b"".join(head + b"folder %03d/words of language %06d" % (each % 100, each) for each in range(number))
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, number & 0xFFFF, number & 0xFFFF, len(listed), 0, 0)
    return io.BytesIO(listed + locator + end)


@pytest.mark.parametrize(
    ("number", "locator"), [(ENVIRONMENT_FILES + 1, b""), (100_000, b""), (1000, b"PK\6\7".ljust(20, b"\0"))]
)
def test_too_many_files_are_refused_before_they_are_read(number: int, locator: bytes) -> None:
    file = directory_of(number, locator)
    tracemalloc.start()
    began = time.monotonic()
    with pytest.raises(DataRefused, match="too many files"):
        check(file, 1000)
    assert time.monotonic() - began < 1
    assert tracemalloc.get_traced_memory()[1] < 20 * MIB
    tracemalloc.stop()


def test_folders_are_bounded() -> None:
    """Few small files with many folders each filled the disk's inodes."""
    paths = [f"{number}/a/b/c/d/e/f/g/h/i/j/k/l/m/n/x" for number in range(5_000)]
    with pytest.raises(DataRefused, match="more than 50000 folders"):
        check(entries(paths), 1000)


def test_as_many_as_may_be_are_read_soon() -> None:
    began = time.monotonic()
    assert len(check(directory_of(ENVIRONMENT_FILES), 1000)) == ENVIRONMENT_FILES
    assert time.monotonic() - began < 10


def encrypted() -> bytes:
    """A zip file whose directory says that its file is encrypted."""
    packed = bytearray(entries(["a"]).getvalue())
    packed[packed.index(b"PK\1\2") + 8] |= 1
    return bytes(packed)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        *((entries(["a"], method).getvalue(), "deflate") for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)),
        (encrypted(), "encrypted"),
        (zip_of({"a": "1"}) + b"more", "follows behind"),
        *(
            (no_zip, "")
            for no_zip in (b"", b"PK", b"PK\5\6" + bytes(18), b"PK\5\6", b"a,b\n1,2\n", b"\x1f\x8b" + bytes(100))
        ),
    ],
)
def test_what_is_no_plain_or_deflated_zip_file_is_refused(sent: bytes, said: str) -> None:
    with pytest.raises(DataRefused, match=said):
        check(io.BytesIO(sent), 10)


def test_changed_bytes_are_refused_or_harmless(tmp_path: Path) -> None:
    """Changes some bytes of hundreds of zip files. Each is unpacked within its folder and bounds, or refused."""
    choose = random.Random(7)
    packed = zip_of({"corpora/a": "some words " * 50, "b": "1"})
    refused = 0
    for number in range(400):
        changed = bytearray(packed)
        for _ in range(choose.randint(1, 3)):
            changed[choose.randrange(len(changed))] = choose.randrange(256)
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            unpacked(io.BytesIO(changed), folder, 1)
        except DataRefused:
            refused += 1
        except UnicodeDecodeError:  # raised by this test's reading
            pass
        assert [path.name for path in folder.iterdir()] in ([], ["data"])
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= MIB
    assert refused > 100


def test_what_the_spool_has_is_compared_with_its_name(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="changed or cut off"),
        data_zip.fetched(io.BytesIO(b"x"), "0" * 64, tmp_path, lambda: None),
    ):
        pass


@pytest.mark.sandbox
@pytest.mark.parametrize("isolation", ["batch", "completion"])
def test_a_grader_reads_it_and_changes_nothing(
    anywhere: Pool, builds: Builds, unpacked: Path, isolation: Literal["batch", "completion"]
) -> None:
    made = builds(None, [], data=zip_of({"scores/a.txt": "0.25", "scores/b.txt": "0.75", "code.py": "VALUE = 1\n"}))
    writes = READS.replace(").read_text())", ').open("a").write("1"))')
    assert (made.lock, made.files) == ([], 4)  # with the mark of what it was built for

    for source, expected in ((READS, {0: 0.25, 1: 0.75}), (writes, {})):
        with anywhere.grading(GraderSource(source, isolation, environment=made.sha256)) as grading:
            lines = b'{"completion": "scores/a.txt"}\n{"completion": "scores/b.txt"}\n'
            outcomes = grading.score(lines, 0, "data@1")
        assert {one.index: one.score for one in outcomes if one.score is not None} == expected, outcomes
        told = {one.error.message.partition(":")[0] for one in outcomes if one.error is not None}
        assert told <= {"PermissionError", "OSError"}
    assert not [*(unpacked / made.sha256 / DATA).rglob("*.pyc")]


@pytest.mark.sandbox
def test_data_makes_another_content(builds: Builds) -> None:
    first, same, other = (builds(None, [], data=zip_of({"a": text})) for text in ("1", "1", "2"))
    assert first.sha256 == same.sha256 != other.sha256


@pytest.mark.sandbox
def test_data_that_is_refused_fails_its_build(builds: Builds, unpacked: Path) -> None:
    with pytest.raises(BuildFailed, match="twice"):
        builds(None, [], data=entries(["a", "A"]).getvalue())
    assert [path.name for path in unpacked.iterdir() if path.name.startswith(".build")] == []


@pytest.mark.sandbox
def test_a_package_brings_no_data_of_that_name(builds: Builds, kept: Kept, tmp_path: Path) -> None:
    make_wheel(tmp_path, "sly", {"sly/__init__.py": "", f"{DATA}/a": "0.9"})
    made = builds(tmp_path, ["sly"], data=zip_of({"b": "1"}))
    with tarfile.open(fileobj=io.BytesIO(kept.archives[made.sha256])) as archive:
        assert {name for name in archive.getnames() if name.startswith(DATA)} == {f"{DATA}/b"}
