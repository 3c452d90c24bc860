"""A grader's source as a JSON body carries it."""

import msgspec

from api.http.problems import invalid
from gradebox.limits import SOURCE_BYTES
from sandbox.source_bytes import SourceRefused, from_bytes


def from_json(raw: bytes, most_bytes: int = SOURCE_BYTES) -> str:
    """The string `source` of a JSON body, as it stands there; at most so many bytes.

    Raises:
        SourceRefused: it can be no source.
        ProblemError: it is no string.
    """
    try:
        text = msgspec.json.decode(raw, type=str)
    except msgspec.ValidationError as error:
        raise invalid(f"`source` must be a string of Python: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceRefused(f"the source is not UTF-8 ({error}): save the file as UTF-8") from error
    return from_bytes(text.encode("utf-8", "surrogatepass"), most_bytes)
