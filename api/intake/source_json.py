"""Decodes a grader's source from a JSON body."""

import msgspec

from api.http.problems import invalid
from sandbox.grading.source_bytes import SourceRefused, from_bytes


def from_json(raw: bytes, most_bytes: int) -> str:
    """Decodes the raw JSON string `source` of a body; at most `most_bytes` of text.

    Raises:
        SourceRefused: it is not UTF-8, or not a valid source.
        ProblemError: it is not a string.
    """
    try:
        text = msgspec.json.decode(raw, type=str)
    except msgspec.ValidationError as error:
        raise invalid(f"`source` must be a string of Python: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceRefused(f"the source is not UTF-8 ({error}): save the file as UTF-8") from error
    return from_bytes(text.encode("utf-8", "surrogatepass"), most_bytes)
