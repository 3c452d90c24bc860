"""Parsing of the editor's samples: threads pasted by users."""

import msgspec

from api.http.problems import invalid
from api.intake import bodies, json_cut

SAMPLES_SHOWN = 200_000  # bytes
_ADVICE = "make a batch of them"


def lines_of(text: str, longest: int, most: int) -> list[bytes] | None:
    """Convert samples to JSON lines. The text is a JSON array, JSON lines, one JSON object, or a plain completion.
    Returns None if it is empty.

    Raises ProblemError if there are more than `most` samples, or one is longer than `longest` bytes.
    """
    text = text.strip()
    if not text:
        return None
    data = text.encode("utf-8", "surrogatepass")
    if _is_json(data):
        if data.startswith(b"["):
            found = bodies.elements(data, most, longest, "samples", _ADVICE)
        else:
            found = [data if data.startswith(b"{") else msgspec.json.encode({"completion": text})]
    else:
        found = _lines(data) if data.startswith(b"{") else [msgspec.json.encode({"completion": text})]
    if not found:
        return None
    if len(found) > most:
        raise invalid(f"there are {len(found)} samples, and a test takes at most {most}: {_ADVICE}")
    return [bodies.line_of(one, longest, f"sample {number}") for number, one in enumerate(found)]


def is_sample(line: bytes) -> bool:
    """Whether a line of a batch can be a sample: a JSON object. Another line is bad input in the batch, and would be a
    plain completion here. A line that is too long for the editor is not read: the editor refuses it.
    """
    if len(line) > SAMPLES_SHOWN:
        return True
    try:
        return line.decode().lstrip().startswith("{") and _is_json(line)
    except UnicodeDecodeError:
        return False


def _is_json(data: bytes) -> bool:
    """Whether this is JSON. It is only validated: decoding a paste of millions of empty lists would take much
    memory."""
    try:
        msgspec.json.decode(json_cut.masked(data) if json_cut.holds_surrogates(data) else data, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _lines(data: bytes) -> list[bytes]:
    lines = [line for line in data.splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        if not _is_json(line):
            raise invalid(f"line {number} of the samples is not JSON: write one sample per line, or one JSON array")
    return lines
