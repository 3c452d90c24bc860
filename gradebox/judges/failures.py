"""The error of a judge that asks several others, some of which failed."""

from collections.abc import Mapping
from typing import Any

from gradebox.asks.errors import ModelError


def as_detail(error: ModelError) -> dict[str, Any]:
    """Convert the error of one judge to JSON types."""
    return {"kind": error.kind, "message": error.message, "retryable": error.retryable}


def no_score(judges: str, failures: Mapping[str, ModelError], details: dict[str, Any]) -> ModelError:
    """Return the error of the whole from those of its judges, by name. It is retryable only if each of them is."""
    final = next((error for error in failures.values() if not error.retryable), next(iter(failures.values())))
    said = "; ".join(f"{name}: {error.message}" for name, error in failures.items())
    message = f"{len(failures)} of the {judges} have no score, so the whole has none: {said}"
    return ModelError(final.kind, message, final.retryable, final.reply, details)
