"""The schema for adaptive-sdk's documents."""

from typing import Any

import strawberry
from strawberry.extensions import AddValidationRules, DisableIntrospection, MaxTokensLimiter

from api.dialects.adaptive.bounds import TOKENS, Bounds
from api.dialects.adaptive.mutations import Mutation
from api.dialects.adaptive.queries import Query
from api.dialects.adaptive.scalars import CONFIG


class _Schema(strawberry.Schema):
    """A schema that does not log errors: the route formats and logs them, and most are caused by the caller."""

    def process_errors(self, *_: Any) -> None:
        """Logs nothing."""


SCHEMA = _Schema(
    query=Query,
    mutation=Mutation,
    config=CONFIG,
    extensions=[
        lambda: MaxTokensLimiter(max_token_count=TOKENS),
        lambda: AddValidationRules([Bounds]),
        DisableIntrospection,
    ],
)
