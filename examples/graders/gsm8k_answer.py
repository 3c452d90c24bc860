"""The final answer of a maths problem, as in GSM8K: `#### 1,234`.

Thousands' commas, currency signs, units, a full stop and a trailing `.00` make no difference. The right number without
the marker is worth half. Metadata: `answer`, a number or a string that contains one.
"""

import re
from decimal import Decimal

from gradebox import Score, StringThread

NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?"
MARKED = re.compile(rf"####[^\d\n+-]{{0,20}}({NUMBER})")
ANY = re.compile(NUMBER)
NO_MARKER = 0.5


def number(text: str) -> Decimal:
    """The value of a number that may have thousands' commas."""
    return Decimal(text.replace(",", ""))


async def grade(thread: StringThread) -> float:
    """1.0 for the right number after the marker, 0.5 without a marker, else 0.0."""
    wanted = ANY.search(str(thread.metadata["answer"]))
    if wanted is None:
        return Score(0.0, reason="this sample has no number for an answer")
    text = thread.completion() or ""
    marked = MARKED.findall(text)
    numbers = marked or ANY.findall(text)
    if not numbers:
        return Score(0.0, reason="there is no number in the completion")
    if number(numbers[-1]) != number(wanted.group()):
        return Score(0.0, reason=f"{numbers[-1]} is not {wanted.group()}")
    return Score(1.0) if marked else Score(NO_MARKER, reason="the right number, without #### in front of it")
