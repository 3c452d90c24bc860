"""Warns about environment variables that look like settings and are none; most are misspelt."""

import os
from difflib import get_close_matches

import structlog
from pydantic_settings import BaseSettings

from api.settings import ApiSettings
from models.settings import ModelSettings
from sandbox.settings import SandboxSettings
from storage.settings import StorageSettings
from worker.environments.settings import EnvironmentSettings
from worker.settings import WorkerSettings

PREFIX = "GRADEBOX_"
CLASSES: tuple[type[BaseSettings], ...] = (
    ApiSettings,
    EnvironmentSettings,
    ModelSettings,
    SandboxSettings,
    StorageSettings,
    WorkerSettings,
)
# Variables read by no settings class: those of the client, of `gradebox serve` itself, and of compose.yaml.
_OTHERS = (
    "API_KEY", "API_MEMORY", "BASE", "CONTAINER_CPUS", "ENDPOINT_KEY_", "IMAGE", "LOG_FORMAT", "LOG_LEVEL", "LOG_MB",
    "MODEL_KEY_", "PROJECT", "REDIS_IMAGE", "REDIS_MAXMEMORY", "REDIS_MEMORY", "SUPERVISED", "URL", "WORKERS",
    "WORKER_MEMORY",
)  # fmt: skip

_log = structlog.get_logger(__name__)


def known() -> set[str]:
    """The names of all settings."""
    named = {
        f"{one.model_config.get('env_prefix') or ''}{field}".upper() for one in CLASSES for field in one.model_fields
    }
    return named | {PREFIX + name for name in _OTHERS}


def warn() -> None:
    """Logs each unknown variable, with the setting that is probably meant."""
    settings = known()
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in settings:
            meant = get_close_matches(name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in settings], 1)
            _log.warning(f"{name} is not a setting{f': is {PREFIX}{meant[0]} meant?' if meant else ''}")
