"""The token counts that a server reports, and their cost. They are read whatever else is wrong: a budget limits what is
known.
"""

import re

import msgspec

from gradebox.outcome import Spent
from models.errors import TokenUsage
from models.replies.error_answers import NOT_DECODED
from storage.models.models import Price

MOST_TOKENS = (1 << 24) - 1  # more than any model takes; a larger count is this one, so that it is not free

_SEARCHED = 65_536  # bytes at the end of a body that cannot be decoded
# Within texts, quotes are escaped.
_USAGE = re.compile(rb'"usage"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')


class _Usage(msgspec.Struct):
    prompt_tokens: msgspec.Raw = msgspec.Raw(b"null")
    completion_tokens: msgspec.Raw = msgspec.Raw(b"null")
    input_tokens: msgspec.Raw = msgspec.Raw(b"null")  # the same two, as some proxies pass them on from Anthropic
    output_tokens: msgspec.Raw = msgspec.Raw(b"null")
    total_tokens: msgspec.Raw = msgspec.Raw(b"null")


class _Completion(msgspec.Struct):
    usage: msgspec.Raw = msgspec.Raw(b"null")


_usage = msgspec.json.Decoder(_Usage)
_completion = msgspec.json.Decoder(_Completion)
_count = msgspec.json.Decoder(int | float)


def counted(body: bytes) -> TokenUsage:
    """Return the counts of a completion, which need not be valid. A count that is missing or invalid is 0. What only
    the total includes is output: some servers, such as xAI's and Gemini's, count the tokens of thinking only there.
    """
    try:
        usage = bytes(_completion.decode(body).usage)
    except NOT_DECODED:
        found = _USAGE.findall(body[-_SEARCHED:])
        usage = found[-1] if found else b"null"
    try:
        counts = _usage.decode(usage)
    except NOT_DECODED:
        return TokenUsage()
    prompt = _tokens(counts.prompt_tokens) or _tokens(counts.input_tokens)
    completion = _tokens(counts.completion_tokens) or _tokens(counts.output_tokens)
    return TokenUsage(prompt, max(completion, _tokens(counts.total_tokens) - prompt))


def _tokens(count: msgspec.Raw) -> int:
    try:
        tokens = _count.decode(count)
    except NOT_DECODED:
        return 0
    return int(min(tokens, MOST_TOKENS)) if tokens >= 0 and tokens % 1 == 0 else 0


def spent_by(price: Price | None, usage: TokenUsage) -> Spent:
    """Return the cost of one ask. Without a price it is 0."""
    spent = Spent(1, 0, usage.input_tokens, usage.output_tokens)
    if price is None:
        return spent
    usd = (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1e6
    return msgspec.structs.replace(spent, usd=usd)
