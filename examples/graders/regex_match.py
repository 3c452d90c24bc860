"""1.0 if the sample's pattern is found in the completion.

Metadata: `pattern`, a regular expression.
"""

import re

from gradebox import Score, StringThread


async def grade(thread: StringThread) -> float:
    """1.0 for a match, else 0.0; the reason shows the match."""
    pattern = thread.metadata["pattern"]
    found = re.search(pattern, thread.completion() or "", re.MULTILINE)
    if found is None:
        return Score(0.0, reason=f"nothing matches {pattern}")
    return Score(1.0, reason=f"found {found.group()[:80]!r}")
