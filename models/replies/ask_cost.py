"""The cost of one ask, from the tokens that the server reports."""

from msgspec.structs import replace

from gradebox.outcome import Spent
from gradebox.schemas import Price
from models.errors import TokenUsage


def spent_by(price: Price | None, usage: TokenUsage) -> Spent:
    """Return the cost of one ask. Without a price it is 0."""
    spent = Spent(1, 0, usage.input_tokens, usage.output_tokens)
    if price is None:
        return spent
    cost = (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1e6
    return replace(spent, cost=cost, currency=price.currency)
