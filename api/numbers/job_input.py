"""The format of the program's standard input: a job as JSON, then streams of lines, divided into frames."""

import struct
from collections.abc import Iterable, Iterator
from typing import IO

import msgspec

from api.numbers.jobs import Job
from storage.spool.blocks import lines_of

_LENGTH = struct.Struct(">Q")
_decoder: msgspec.json.Decoder[Job] = msgspec.json.Decoder(Job)


def write(file: IO[bytes], job: Job, streams: Iterable[Iterable[bytes]]) -> None:
    """Writes a job and its streams. The blocks of a stream need not end at line ends."""
    _write_frame(file, msgspec.json.encode(job))
    for stream in streams:
        for block in stream:
            if block:
                _write_frame(file, block)
        _write_frame(file, b"")
    file.flush()


def read_job(file: IO[bytes]) -> Job:
    """Reads the job, which comes first."""
    return _decoder.decode(_frame(file))


def read_blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Yields the next stream in blocks of whole lines with line ends. Read it to its end before the next one."""
    rest: list[bytes] = []
    while block := _frame(file):
        whole, end, after = block.rpartition(b"\n")
        if end:
            yield b"".join([*rest, whole, end])
            rest = [after]
        else:
            rest.append(block)
    if last := b"".join(rest):
        yield last + b"\n"


def read_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yields the lines of the next stream, without line ends. Read it to its end before the next one."""
    return lines_of(iter(lambda: _frame(file), b""))


def _write_frame(file: IO[bytes], block: bytes) -> None:
    file.write(_LENGTH.pack(len(block)))
    file.write(block)


def _frame(file: IO[bytes]) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(file, _LENGTH.size))
    return _exactly(file, length)


def _exactly(file: IO[bytes], length: int) -> bytes:
    found = file.read(length)
    if len(found) < length:
        raise EOFError(f"the input ended after {len(found)} of {length} bytes")
    return found
