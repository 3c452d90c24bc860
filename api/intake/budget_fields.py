"""The types of a budget's fields in requests."""

from typing import Annotated

import msgspec

MOST_COST = 1_000_000_000
MOST_TOKENS = 1_000_000_000_000_000
CURRENCY = r"^[A-Z]{3}$"  # of pydantic, whose `$` is the end; that of Python is also before a last newline

Cost = Annotated[float, msgspec.Meta(ge=0, le=MOST_COST)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
Currency = Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}(?!\n)$", description="three capitals, such as USD")]
