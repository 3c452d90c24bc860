"""Runs commands of gradebox in forks of a process that has imported it, because the import takes half a second."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["gradebox.client", "httpcore", "encodings.idna", "rich._emoji_codes", "tests.authorities", "tests.command_tree"]
)
_TIMEOUT_S = 120


def run_command(
    arguments: Sequence[str], environment: dict[str, str], folder: Path, stdin: bytes = b""
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as own:
        streams = [Path(own, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_bytes(stdin)
        process = _FORKS.Process(target=_run, args=(["gradebox", *arguments], environment, folder, streams))
        process.start()
        process.join(_TIMEOUT_S)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(list(arguments), _TIMEOUT_S)
        out, err = (stream.read_bytes().decode() for stream in streams[1:])
    return subprocess.CompletedProcess(list(arguments), process.exitcode, out, err)


def _run(arguments: list[str], environment: dict[str, str], folder: Path, streams: list[Path]) -> None:
    for descriptor, stream in enumerate(streams):
        opened = os.open(stream, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (_text(descriptor) for descriptor in range(3))
    sys.argv = arguments
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    from gradebox.cli import main

    main()


def _text(descriptor: int) -> IO[str]:
    mode = "w" if descriptor else "r"
    return open(descriptor, mode, encoding="utf-8", closefd=False)
