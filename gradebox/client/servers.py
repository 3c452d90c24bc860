"""The settings of the servers that a project registers, its models and endpoints."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypedDict

from gradebox.client.versions import check_known
from gradebox.schemas import ModelDefaults, Price


class EndpointOptions(TypedDict, total=False):
    """The arguments of an endpoint besides its key and its URL."""

    api_key: str | None
    timeout_s: float | None
    max_concurrency: int | None
    requests_per_minute: int | None


class ModelOptions(EndpointOptions, total=False):
    """The arguments of a model besides its key and its name on a server."""

    defaults: ModelDefaults | Mapping[str, Any] | None
    tokens_per_minute: int | None
    price: Price | Mapping[str, Any] | None
    keep_replies: bool | None


def endpoint_fields(url: str | None, options: EndpointOptions) -> dict[str, object]:
    """The fields of a request for an endpoint. Raises TypeError if endpoints do not have one of the options."""
    check_known(options, EndpointOptions, "an endpoint")
    return {"url": url, **options}


def model_fields(base_url: str | None, model: str | None, options: ModelOptions) -> dict[str, object]:
    """The fields of a request for a model. Raises TypeError if models do not have one of the options."""
    check_known(options, ModelOptions, "a model")
    fields: dict[str, object] = {"base_url": base_url, "model": model, **options}
    if (defaults := options.get("defaults")) is not None:
        fields["defaults"] = ModelDefaults.model_validate(defaults).model_dump(exclude_none=True)
    if (price := options.get("price")) is not None:
        fields["price"] = asdict(Price(**price) if isinstance(price, Mapping) else price)
    return fields
