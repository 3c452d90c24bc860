"""Marks around judged text that cannot occur in the text.

They show a model where foreign text begins and ends, so that a completion cannot fake its own end, a criterion or a
context. They do not prevent a model from following instructions in that text.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256

_DIGITS = 16


class Fence:
    """Marks for the texts of one prompt. They are deterministic, so that a judge repeats an ask with identical
    words."""

    def __init__(self, texts: Iterable[str]) -> None:
        held = [text.encode("utf-8", "surrogatepass") for text in texts]
        mark, lengths = sha256(), ",".join(str(len(text)) for text in held)
        mark.update(lengths.encode())
        for text in held:
            mark.update(text)
        while any(mark.hexdigest()[:_DIGITS].encode() in text for text in held):
            mark.update(b"again")
        self.mark = mark.hexdigest()[:_DIGITS]

    def around(self, name: str, text: str) -> str:
        """Put a text between its marks."""
        return f"[begin {name} {self.mark}]\n{text}\n[end {name} {self.mark}]"


def fenced(texts: Mapping[str, str]) -> str:
    """Put the texts of a prompt, given by displayed name, between their marks."""
    fence = Fence(texts.values())
    return "\n\n".join(fence.around(name, text) for name, text in texts.items())
