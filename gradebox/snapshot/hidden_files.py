"""Hides the author's files from an uploaded copy that is run on the author's machine, to be compared.

With them, a copy that reads a file, or imports a module that was not uploaded, would have the same values there and
others in the sandbox, and one that writes a file would overwrite the author's.
"""

import errno
import functools
import os
import sys
from collections.abc import Callable
from typing import Any

_SYSTEM = ("/dev", "/proc", "/sys", "/usr/share/zoneinfo")
_EVENTS = frozenset(("open", "os.listdir", "os.scandir"))  # of sys.audit; the first argument is a path
_NOT_AUDITED = ("stat", "lstat", "access")


def hide_files(folder: str) -> None:
    """Leaves this process the files of Python, of its packages and of the system, and those in `folder`. Others are not
    found, also as modules, and cannot be created. It cannot be undone.
    """
    packages = [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    kept = [
        folder,
        os.environ.get("TMPDIR", folder),
        sys.prefix,
        sys.base_prefix,
        os.path.dirname(os.__file__),
        os.path.dirname(os.path.dirname(__file__)),  # of gradebox
        *packages,
        *_SYSTEM,
    ]
    roots = tuple(way(each) + os.sep for each in kept for way in (os.path.abspath, os.path.realpath))

    def refuse(path: object) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            name = os.fsdecode(path)
            if not (os.path.abspath(name) + os.sep).startswith(roots):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _EVENTS:
            refuse(arguments[0])

    def refusing(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            refuse(path)
            return function(path, *arguments, **options)

        return call

    sys.path_importer_cache.clear()  # it has the names of the author's modules
    sys.addaudithook(audit)
    for name in _NOT_AUDITED:
        setattr(os, name, refusing(getattr(os, name)))
