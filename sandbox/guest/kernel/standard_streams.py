"""Makes `open("/dev/stdin")` work, by which programs read their input. It leads to /proc, which sandboxes lack."""

import builtins
import io
import os

_DESCRIPTORS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2, "/dev/fd/0": 0, "/dev/fd/1": 1, "/dev/fd/2": 2}


def open_by_name() -> None:
    """From now on, `open` accepts the names of the standard streams. `os.path.exists` is true of them: `numpy.loadtxt`
    calls it first.
    """
    open_file, exists = io.open, os.path.exists

    def open(file: object, *arguments: object, **named: object) -> object:  # noqa: A001  # it replaces that one
        if str(file) in _DESCRIPTORS:  # also a `Path`
            file = os.dup(_DESCRIPTORS[str(file)])
        return open_file(file, *arguments, **named)  # type: ignore[call-overload]  # whatever the program passes

    os.path.exists = lambda path: str(path) in _DESCRIPTORS or exists(path)
    io.open = builtins.open = open  # type: ignore[assignment]
