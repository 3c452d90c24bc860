"""Outcomes in the form in which earlier checkouts wrote them."""

import json


def in_earlier_form(line: bytes) -> bytes:
    """The line of an outcome; of a group, `scores` has an object for each completion, and there is no other list."""
    told = json.loads(line)
    if "scores" not in told:
        return line
    count = len(told["scores"])
    completions = told.pop("completions", [{}] * count)
    details = told.pop("details", [None] * count)
    told["scores"] = [
        {"score": score, **rest, **({} if one is None else {"details": one})}
        for score, rest, one in zip(told["scores"], completions, details, strict=True)
    ]
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"
