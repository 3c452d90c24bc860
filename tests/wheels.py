"""Makes wheels in a package index, which is a folder, and zip files of data for environments."""

import base64
import hashlib
import io
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest


def make_wheel(
    folder: Path, name: str, files: Mapping[str, str], version: str = "1.0", requires: tuple[str, ...] = ()
) -> Path:
    """Adds a wheel of pure Python with these files to this index."""
    info = f"{name}-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {one}\n" for one in requires)
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in content.items()]
    record.append(f"{info}/RECORD,,\n")
    path = folder / name / f"{name}-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, text in content.items():
            wheel.writestr(member, text)
        wheel.writestr(f"{info}/RECORD", "".join(record))
    list_files(folder, name)
    return path


def zip_of(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return packed.getvalue()


def tar_of(files: Mapping[str, str], *more: tarfile.TarInfo) -> bytes:
    """An archive of an environment."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
        for member in more:
            archive.addfile(member)
    return packed.getvalue()


def list_files(index: Path, name: str) -> None:
    """Writes the index page that lists all files of a package."""
    files = sorted(path.name for path in (index / name).iterdir() if path.suffix in (".whl", ".gz"))
    (index / name / "index.html").write_text("".join(f'<a href="{file}">{file}</a>\n' for file in files))


def skip_without_index(failed: Exception) -> None:
    """Skips the test if a build failed because this machine reaches no package index."""
    if any(word in str(failed) for word in ("Failed to fetch", "error sending request", "Connect")):
        pytest.skip(f"no package index can be reached: {failed}")


@contextmanager
def folder_for_environments() -> Iterator[Path]:
    """A temporary folder that the users of sandboxes can read; they cannot read pytest's folders."""
    with tempfile.TemporaryDirectory(prefix="gradebox-environments-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
