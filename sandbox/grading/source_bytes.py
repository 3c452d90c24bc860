"""A grader's source as received. Only its bytes are inspected: Python is parsed in a sandbox, never here."""

from gradebox.limits import MAX_SOURCE_BYTES, SOURCE_BYTES
from gradebox.schemas import Check, Report


class SourceRefused(Exception):
    """Bytes that cannot be a source. `report` reports this as the check `syntax` would."""

    def __init__(self, message: str, line: int | None = None) -> None:
        check = Check(name="syntax", passed=False, message=message, line=line, duration_ms=0.0)
        self.report = Report(valid=False, checks=[check])
        super().__init__(message)


class SourceTooLong(SourceRefused):
    """The source has more bytes than allowed."""


def from_bytes(data: bytes, most_bytes: int = SOURCE_BYTES) -> str:
    """Decodes a source file of at most `most_bytes` bytes, without a byte order mark.

    Raises:
        SourceTooLong: it has more bytes.
        SourceRefused: it is not UTF-8, or has null bytes.
    """
    if len(data) > most_bytes:
        more = (
            f". An operator can set up to {MAX_SOURCE_BYTES}, by GRADEBOX_SOURCE_BYTES or `gradebox projects limits "
            "PROJECT --source-bytes`"
        )
        raise SourceTooLong(
            f"the source is {len(data)} bytes long, and at most {most_bytes} ({most_bytes // 1024} KiB) are taken: "
            "move data out of it, into the threads' metadata or an environment"
            f"{more if most_bytes < MAX_SOURCE_BYTES else ''}"
        )
    if b"\0" in data:
        raise SourceRefused(
            "the source holds a null byte: remove it, or send a Python file", _line(data, data.index(b"\0"))
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceRefused(
            f"the source is not UTF-8 (byte {error.start} is 0x{data[error.start]:02x}): save the file as UTF-8",
            _line(data, error.start),
        ) from error


def _line(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1
