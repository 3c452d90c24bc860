"""Requests what a reward server tells of itself."""

import msgspec

from api.dialects.adaptive.types import RemoteEnvTest, RemoteEnvTestOffline, RemoteEnvTestOnline
from models.errors import AskFailed
from models.replies.error_answers import NOT_DECODED
from models.servers.permitted_addresses import look_up
from models.settings import ModelSettings

_TIME_S = 5.0


class _Info(msgspec.Struct):
    name: str
    version: str
    description: str


async def described(url: str, settings: ModelSettings) -> RemoteEnvTest:
    """Requests `/info` from the reward server at this URL. An error quotes nothing of its answer."""
    from models.servers.pinned_http import PinnedHttp  # takes most of a second, and few users have a server tested

    try:
        async with PinnedHttp(url, {}, 1, settings, look_up) as http:
            answer = await http.get("/info", _TIME_S)
    except AskFailed as error:
        return RemoteEnvTestOffline(error=error.fault.message)
    if answer.status != 200:
        return RemoteEnvTestOffline(error=f"its /info answers with status {answer.status} instead of 200")
    try:
        told = msgspec.json.decode(answer.body, type=_Info)
    except NOT_DECODED:
        return RemoteEnvTestOffline(error="its /info is not that of a reward server: {name, version, description}")
    return RemoteEnvTestOnline(name=told.name, version=told.version, description=told.description)
