"""Partial credit: the share of keywords in the completion, as whole words in any case.

Metadata: `keywords`, a list of strings.
"""

import re
from functools import cache

from gradebox import Score, StringThread


@cache
def pattern(keyword: str) -> re.Pattern[str]:
    """Finds the keyword as a whole word in casefolded text."""
    return re.compile(rf"(?<!\w){re.escape(keyword.casefold())}(?!\w)")


async def grade(thread: StringThread) -> float:
    """From 0.0 to 1.0; the reason lists the keywords that are missing."""
    keywords = thread.metadata["keywords"]
    text = (thread.completion() or "").casefold()
    missing = [keyword for keyword in keywords if not pattern(keyword).search(text)]
    reason = f"missing: {', '.join(missing)}" if missing else "all keywords are there"
    return Score(1 - len(missing) / len(keywords), reason=reason)
