"""The scratch folders. They are emptied between completions, so that no completion finds files of another."""

import os
import stat

FOLDERS = ("/tmp", "/dev/shm")  # private to the sandbox


class NotClean(Exception):
    """Something is left that could not be removed, so the sandbox must not be used again."""


def count_files() -> int:
    """The number of files and folders in the scratch folders, as counted by their file systems."""
    found = 0
    for folder in FOLDERS:
        status = os.statvfs(folder)
        found += status.f_files - status.f_ffree - 1
    return found


def is_counted() -> bool:
    """Whether the file systems of both folders count files, which not all file systems do."""
    for folder in FOLDERS:
        path = f"{folder}/.counted"
        before = count_files()
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        counted = count_files() == before + 1
        os.unlink(path)
        if not counted or count_files() != before:
            return False
    return True


def names() -> frozenset[str]:
    """The paths of the entries at the top of the scratch folders."""
    return frozenset(f"{folder}/{name}" for folder in FOLDERS for name in os.listdir(folder))


def reopen() -> None:
    """Restores the mode and the times of the folders themselves.

    Raises:
        NotClean: they could not be restored.
    """
    try:
        for folder in FOLDERS:
            os.chmod(folder, 0o700)
            os.utime(folder, (0, 0))
    except OSError as error:
        raise NotClean(f"{error.filename!r:.100}: {error.strerror}") from error


def clean(keep: frozenset[str] = frozenset()) -> None:
    """Removes everything except the paths in `keep`.

    Folders are moved to the top before they are listed, because one may be 20,000 levels deep, too deep for a path.

    Raises:
        NotClean: something could not be removed.
    """
    try:
        for folder in FOLDERS:
            os.chmod(folder, 0o700)  # its permissions may have been removed
            for name in os.listdir(folder):  # pathlib costs a cold sandbox 5 ms
                path = f"{folder}/{name}"
                if path not in keep:
                    _remove(folder, path)
            os.utime(folder, (0, 0))  # times can be set, so they could carry a message
    except OSError as error:
        raise NotClean(f"{error.filename!r:.100}: {error.strerror}") from error


def _remove(folder: str, path: str) -> None:
    waiting = [path]
    lifted = 0
    while waiting:
        current = waiting.pop()
        if not stat.S_ISDIR(os.lstat(current).st_mode):
            os.unlink(current)
            continue
        os.chmod(current, 0o700)
        for name in os.listdir(current):
            inner = f"{current}/{name}"
            if stat.S_ISDIR(os.lstat(inner).st_mode):
                lifted += 1
                top = f"{folder}/.lifted-{lifted}"
                os.chmod(inner, 0o700)  # moving a folder requires write permission, since it changes `..`
                os.rename(inner, top)
                waiting.append(top)
            else:
                os.unlink(inner)
        os.rmdir(current)
