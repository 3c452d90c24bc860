"""The models that `gradebox serve` is told of, in project `default`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradebox.client import Client
from gradebox.errors import CannotServe, Conflict, GradeboxError
from gradebox.key_file import KEY_FILE

SECRETS = "GRADEBOX_MODEL_KEY_"
_FORM = re.compile(r"(?P<key>[^=@]+)=(?P<name>.+)@(?P<url>https?://[^@]+)", re.IGNORECASE)


@dataclass(frozen=True)
class ServedModel:
    """One model, as the command line names it."""

    key: str
    name: str
    base_url: str
    api_key: str = field(repr=False)


def read(text: str, environment: Mapping[str, str]) -> ServedModel:
    """`KEY=NAME@BASE_URL`, with the API key that the environment has for it. Raises CannotServe."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise CannotServe("--model is KEY=NAME@BASE_URL, as in small-judge=qwen3:8b@http://127.0.0.1:11434/v1")
    variable = SECRETS + re.sub(r"[^A-Z0-9]", "_", match["key"].upper())
    return ServedModel(match["key"], match["name"], match["url"], environment.get(variable, ""))


def register(models: Sequence[ServedModel], url: str, data_dir: Path) -> None:
    """Makes each, or changes what is there of its key. Raises CannotServe where the service refuses one."""
    if not models:
        return
    try:
        own_key = (data_dir / KEY_FILE).read_text("ascii").strip()
    except OSError as error:
        raise CannotServe(
            f"--model needs the API key in {data_dir / KEY_FILE}, which cannot be read ({error.strerror}): "
            "register models with gradebox models create"
        ) from error
    with Client(url, own_key) as client:
        for model in models:
            try:
                try:
                    client.models.create(model.key, base_url=model.base_url, model=model.name, api_key=model.api_key)
                except Conflict:
                    client.models.update(model.key, base_url=model.base_url, model=model.name, api_key=model.api_key)
            except (GradeboxError, ValueError) as error:
                raise CannotServe(f"model {model.key!r} cannot be used: {error}") from error
