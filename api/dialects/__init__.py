"""The APIs of other services' clients. Each subpackage translates one of them to the calls of our own routes."""

from collections.abc import Sequence

from fastapi import APIRouter

from api.dialects.adaptive import route as adaptive
from api.dialects.langfuse import route as langfuse
from api.dialects.openai import routes as openai
from api.dialects.promptfoo import route as promptfoo
from api.dialects.reward import route as reward
from api.dialects.weave import route as weave
from api.settings import Dialect

_ROUTERS: dict[Dialect, APIRouter] = {
    "adaptive": adaptive.router,
    "langfuse": langfuse.router,
    "openai": openai.router,
    "promptfoo": promptfoo.router,
    "reward": reward.router,
    "weave": weave.router,
}


def routers(names: Sequence[Dialect]) -> list[APIRouter]:
    """The routes of these dialects."""
    return [router for name, router in _ROUTERS.items() if name in names]
