"""Graders that were stored before their kind could run: how they become runnable, and what they lack for it."""

import hashlib
import re
from typing import Any

from gradebox.limits import MEMORY_MB, TIMEOUT_S
from gradebox.schemas import KEY_PATTERN, GraderRecord, Version, WrittenKind
from storage.endpoints import Endpoints
from storage.models import Models

_WARNING = "the grader was kept before its kind could run: its source was written later, and was not proved"
_OTHER_KIND = "name another grader, or make a judge (`gradebox graders create NEW --kind binary_judge …`)"


class Lacking(Exception):
    """The grader cannot be run. The message describes what it lacks and what to do."""


class KeptGraders:
    """Makes runnable versions from versions without a source. It stores nothing."""

    def __init__(self, models: Models, endpoints: Endpoints) -> None:
        self._models = models
        self._endpoints = endpoints

    def runnable(self, project: str, key: str, version: Version) -> Version:
        """The version with its source, which is generated from the stored config. Raises Lacking."""
        config = version.config or {}
        if version.kind == "judge":
            return self._judge(project, key, version, config)
        if version.kind == "external":
            return self._external(project, key, version, config)
        if version.kind == "custom":
            raise Lacking("its scores come from outside, as from people: record them (`batch.record`)")
        raise Lacking(f"graders of kind {version.kind!r} are stored and returned, but cannot be run: {_OTHER_KIND}")

    def lacks(self, grader: GraderRecord, version: Version) -> str | None:
        """A description of what a grader lacks to be run, and what to do. None if it lacks nothing."""
        try:
            None if version.source else self.runnable(grader.project, grader.key, version)
        except Lacking as lacking:
            return str(lacking)
        return None

    def _judge(self, project: str, key: str, version: Version, config: dict[str, Any]) -> Version:
        model = config.get("model")
        there = [one.key for one in self._models.all(project)]
        if model not in there:
            has = f"it has {', '.join(there)}" if there else "it has none"
            register = f"register it (`gradebox models create {model} …`), or " if _can_be_key(model) else ""
            raise Lacking(
                f"the project has no model {model!r:.80} ({has}): {register}name one of the project "
                f"(`gradebox graders update {key} --model MODEL`)"
            )
        examples = [_example(each) for each in config.get("examples") or []]
        settings = {**config, "examples": examples} if "examples" in config else config
        return _written(key, version, "binary_judge", settings, f"model:{model}")

    def _external(self, project: str, key: str, version: Version, config: dict[str, Any]) -> Version:
        url = str(config.get("url", ""))
        endpoint = next((one.key for one in self._endpoints.all(project) if _same(one.url, url)), None)
        if endpoint is None:
            raise Lacking(
                f"the project has no endpoint at {url:.300}: register it "
                f"(`gradebox endpoints create NAME --endpoint-url {url:.300}`), or name one of the project "
                f"(`gradebox graders update {key} --endpoint NAME`)"
            )
        return _written(key, version, "external", {"endpoint": endpoint}, f"endpoint:{endpoint}")


def _written(key: str, version: Version, kind: WrittenKind, config: dict[str, Any], asks: str) -> Version:
    from gradebox.judges.source import settled, source_of  # here, because it loads the template engine

    try:
        source, settings = source_of(kind, config), settled(kind, config)
    except ValueError as error:
        raise Lacking(
            f"its settings cannot be used ({error}): give them anew (`gradebox graders update {key} --kind {kind} "
            "--config FILE.json`)"
        ) from error
    changes = {
        "kind": kind,
        "config": settings,
        "source": source,
        "sha256": hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest(),
        "timeout_s": TIMEOUT_S,
        "memory_mb": MEMORY_MB,
        "asks": [asks],
        "warnings": [_WARNING],
    }
    return version.model_copy(update=changes)


def _example(example: Any) -> Any:
    """The example without members that are not settings: an id, and a reasoning that is None."""
    if not isinstance(example, dict):
        return example
    return {name: value for name, value in example.items() if name != "id" and (name, value) != ("reasoning", None)}


def _can_be_key(model: object) -> bool:
    return isinstance(model, str) and re.match(KEY_PATTERN, model) is not None


def _same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")
