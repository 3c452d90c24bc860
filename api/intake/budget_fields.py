"""The types of a budget's fields in requests."""

from typing import Annotated

import msgspec

MOST_USD = 1_000_000_000
MOST_TOKENS = 1_000_000_000_000_000

Usd = Annotated[float, msgspec.Meta(ge=0, le=MOST_USD)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
