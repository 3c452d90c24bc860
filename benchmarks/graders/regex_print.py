"""Checks the number after `####`, as in GSM8K. Prints a line for each completion."""

import re

from gradebox import StringThread

MARKED = re.compile(r"####\s*(-?[\d,]+(?:\.\d+)?)")
NUMBERS = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


async def grade(thread: StringThread) -> float:
    """1.0 for the right number after the marker, 0.5 without a marker, else 0.0."""
    text = thread.completion() or ""
    marked = MARKED.findall(text)
    found = marked or NUMBERS.findall(text)
    print(f"{len(found)} numbers, {len(marked)} of them marked")
    if not found or float(found[-1].replace(",", "")) != float(thread.metadata["answer"]):
        return 0.0
    return 1.0 if marked else 0.5
