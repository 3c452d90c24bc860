"""The settings of a grader whose source is generated: of a file, and of options."""

import json
from pathlib import Path
from typing import Any

from gradebox.cli.output import fail


def settings_given(
    config: Path | None, criteria: str | None, model: str | None, endpoint: str | None
) -> dict[str, Any]:
    """The settings in the file of --config, and those of the options, which come first."""
    settings = _config(config) if config is not None else {}
    if isinstance(settings.get("settings"), dict):  # as `create.multi_criteria` takes those of its judges
        settings |= settings.pop("settings")
    options = {"criteria": criteria, "judge_model": model, "endpoint": endpoint}
    given = {name: value for name, value in options.items() if value is not None}
    if "judge_model" in given:
        settings.pop("model", None)  # the other name of this setting
    return settings | given


def named_for(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, with those of --criteria under the name that they have for this kind."""
    names = {"criteria": "criterion"} if kind == "judge" else {}
    return {names.get(name, name): value for name, value in settings.items()}


def _config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        fail(f"{file} cannot be read as JSON: {error}", 1)
    if not isinstance(config, dict):
        fail(f"{file} does not contain a JSON object with settings of the kind", 1)
    return config
