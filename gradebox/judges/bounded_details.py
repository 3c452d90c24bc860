"""Details cut to fit into an outcome."""

from json import JSONEncoder
from typing import Any

from gradebox.score import DETAILS_BYTES

_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_LONGEST = (4000, 2000, 1000, 500, 250, 120, 60, 30)


def bounded(details: dict[str, Any], most_bytes: int = DETAILS_BYTES) -> dict[str, Any]:
    """Cut the texts in the details until they fit into an outcome. Cut texts end in an ellipsis. Half a surrogate pair
    becomes its escape, as in the outcome.

    Raises:
        ValueError: there are too many entries for any cut to suffice.
    """
    text = _encode(details)
    if text.isascii() and len(text) <= min(_LONGEST[0], most_bytes):  # no text needs a cut
        return details
    for longest in _LONGEST:
        cut = _cut(details, longest)
        if len(_encode(cut).encode()) <= most_bytes:
            return dict(cut)
    raise ValueError(f"the details of the score do not fit into {most_bytes} bytes: judge less at once")


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        text = value[: longest + 1].encode("utf-8", "backslashreplace").decode()
        return text if len(text) <= longest else f"{text[:longest]}…"
    if isinstance(value, dict):
        return {name: _cut(member, longest) for name, member in value.items()}
    return [_cut(member, longest) for member in value] if isinstance(value, list) else value
