"""The models and endpoints in the options of `gradebox serve`, for project `default`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradebox.client import Client
from gradebox.errors import CannotServe, Conflict, GradeboxError
from gradebox.key_file import KEY_FILE

MODEL_SECRETS = "GRADEBOX_MODEL_KEY_"
ENDPOINT_SECRETS = "GRADEBOX_ENDPOINT_KEY_"
SECRETS = (MODEL_SECRETS, ENDPOINT_SECRETS)
_MODEL = re.compile(r"(?P<key>[^=@]+)=(?P<name>.+)@(?P<url>https?://[^@]+)", re.IGNORECASE)
_ENDPOINT = re.compile(r"(?P<key>[^=@]+)=(?P<url>https?://[^@]+)", re.IGNORECASE)


@dataclass(frozen=True)
class ServedModel:
    """A model from the command line."""

    key: str
    name: str
    base_url: str
    api_key: str = field(repr=False)

    def register(self, client: Client) -> None:
        """Registers it, or updates the existing one with its key."""
        try:
            client.models.create(self.key, base_url=self.base_url, model=self.name, api_key=self.api_key)
        except Conflict:
            client.models.update(self.key, base_url=self.base_url, model=self.name, api_key=self.api_key)


@dataclass(frozen=True)
class ServedEndpoint:
    """An endpoint from the command line."""

    key: str
    url: str
    api_key: str = field(repr=False)

    def register(self, client: Client) -> None:
        """Registers it, or updates the existing one with its key."""
        try:
            client.endpoints.create(self.key, url=self.url, api_key=self.api_key)
        except Conflict:
            client.endpoints.update(self.key, url=self.url, api_key=self.api_key)


def read(text: str, environment: Mapping[str, str]) -> ServedModel:
    """Parses `KEY=NAME@BASE_URL`, and adds the API key from the environment. Raises CannotServe."""
    match = _MODEL.fullmatch(text)
    if match is None:
        raise CannotServe("--model is KEY=NAME@BASE_URL, as in small-judge=qwen3:8b@http://127.0.0.1:11434/v1")
    api_key = environment.get(MODEL_SECRETS + _capitals(match["key"]), "")
    return ServedModel(match["key"], match["name"], match["url"], api_key)


def read_endpoint(text: str, environment: Mapping[str, str]) -> ServedEndpoint:
    """Parses `KEY=URL`, and adds the API key from the environment. Raises CannotServe."""
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise CannotServe("--endpoint is KEY=URL, as in my-reward=http://127.0.0.1:9000")
    api_key = environment.get(ENDPOINT_SECRETS + _capitals(match["key"]), "")
    return ServedEndpoint(match["key"], match["url"], api_key)


def refuse_same_key(served: Sequence[ServedModel | ServedEndpoint]) -> None:
    """Raises CannotServe if two models or two endpoints have the same key: the second would replace the first."""
    named = [(type(one), one.key) for one in served]
    for number, one in enumerate(served):
        if named[number] in named[:number]:
            option = "--model" if isinstance(one, ServedModel) else "--endpoint"
            raise CannotServe(f"{option} names {one.key!r} twice: give each its own key")


def register(served: Sequence[ServedModel | ServedEndpoint], url: str, data_dir: Path) -> None:
    """Registers each model and endpoint, or updates the existing one. Raises CannotServe if the service refuses one."""
    if not served:
        return
    try:
        own_key = (data_dir / KEY_FILE).read_text("ascii").strip()
    except OSError as error:
        raise CannotServe(
            f"--model and --endpoint need the API key in {data_dir / KEY_FILE}, which cannot be read "
            f"({error.strerror}): register with gradebox models create or gradebox endpoints create"
        ) from error
    with Client(url, own_key) as client:
        for one in served:
            try:
                one.register(client)
            except (GradeboxError, ValueError) as error:
                kind = "model" if isinstance(one, ServedModel) else "endpoint"
                raise CannotServe(f"{kind} {one.key!r} cannot be used: {error}") from error


def _capitals(key: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", key.upper())
