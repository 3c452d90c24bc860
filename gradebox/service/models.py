"""The models and endpoints in the options of `gradebox serve`, for project `default`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gradebox.errors import CannotServe, GradeboxError
from gradebox.key_file import KEY_FILE

if TYPE_CHECKING:
    from gradebox.client import Client

MODEL_SECRETS = "GRADEBOX_MODEL_KEY_"
ENDPOINT_SECRETS = "GRADEBOX_ENDPOINT_KEY_"
SECRETS = (MODEL_SECRETS, ENDPOINT_SECRETS)
_MODEL = re.compile(r"(?P<key>[^=@]+)=(?P<name>.+)@(?P<url>https?://[^@]+)", re.IGNORECASE)
_ENDPOINT = re.compile(r"(?P<key>[^=@]+)=(?P<url>https?://[^@]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Served:
    """A model or an endpoint from the command line. `settings` are arguments of its `create` and `update`."""

    kind: Literal["model", "endpoint"]
    key: str
    settings: Mapping[str, str]
    api_key: str = field(repr=False)

    def register(self, client: "Client") -> None:
        """Registers it, or updates the existing one with its key."""
        registered: Any = client.models if self.kind == "model" else client.endpoints
        registered.put(self.key, api_key=self.api_key, **self.settings)


def read_model(text: str, environment: Mapping[str, str]) -> Served:
    """Parses `KEY=NAME@BASE_URL`, and adds the API key from the environment. Raises CannotServe."""
    match = _MODEL.fullmatch(text)
    if match is None:
        raise CannotServe("--model is KEY=NAME@BASE_URL, as in small-judge=qwen3:8b@http://127.0.0.1:11434/v1")
    api_key = environment.get(MODEL_SECRETS + _capitals(match["key"]), "")
    return Served("model", match["key"], {"model": match["name"], "base_url": match["url"]}, api_key)


def read_endpoint(text: str, environment: Mapping[str, str]) -> Served:
    """Parses `KEY=URL`, and adds the API key from the environment. Raises CannotServe."""
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise CannotServe("--endpoint is KEY=URL, as in my-reward=http://127.0.0.1:9000")
    api_key = environment.get(ENDPOINT_SECRETS + _capitals(match["key"]), "")
    return Served("endpoint", match["key"], {"url": match["url"]}, api_key)


def refuse_same_key(served: Sequence[Served]) -> None:
    """Raises CannotServe if two models or two endpoints have the same key: the second would replace the first."""
    named = [(one.kind, one.key) for one in served]
    for number, (kind, key) in enumerate(named):
        if (kind, key) in named[:number]:
            raise CannotServe(f"--{kind} names {key!r} twice: give each its own key")


def register(served: Sequence[Served], url: str, data_dir: Path) -> None:
    """Registers each model and endpoint, or updates the existing one. Raises CannotServe if the service refuses one."""
    if not served:
        return
    from gradebox.client import Client  # most starts do without it

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
                raise CannotServe(f"{one.kind} {one.key!r} cannot be used: {error}") from error


def _capitals(key: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", key.upper())
