"""Requests about environments, models, endpoints and what they cost."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gradebox.client.calls.call import Call, encode, nothing
from gradebox.client.calls.paths import path_of, query
from gradebox.schemas import (
    EndpointTrial,
    Environment,
    EnvironmentData,
    ModelDefaults,
    ModelTrial,
    Price,
    ProjectBudget,
    ProjectSpending,
)

DATA_S = 60.0  # to inspect a zip file, including the wait for other requests
_MODEL_WAIT_S = 60.0  # to wait for other requests before the test of a model or endpoint


def put_environment(project: str, key: str, fields: Mapping[str, Any]) -> Call[Environment]:
    """Starts a new build of an environment, unless the newest one has the same content. None keeps the current part."""
    path, body = path_of(project, "environments", key), encode(fields)
    return Call("PUT", path, Environment.model_validate_json, body=body)


def send_data(project: str, data: bytes) -> Call[EnvironmentData]:
    """Uploads a zip file of data for environments."""
    path, read = path_of(project, "environments", "data"), EnvironmentData.model_validate_json
    return Call("POST", path, read, body=data, media_type="application/zip", work_s=DATA_S)


def wait_for_environment(project: str, key: str, wait_s: float, within_s: float) -> Call[Environment]:
    """Requests an environment with its builds; the answer waits at most `wait_s` seconds for the newest one."""
    path, params = path_of(project, "environments", key), [("wait_s", f"{wait_s:g}")]
    return Call("GET", path, Environment.model_validate_json, params=params, work_s=wait_s, within_s=within_s)


def test_model(project: str, key: str, timeout_s: float) -> Call[ModelTrial]:
    """Tests a model with three requests of at most `timeout_s` seconds each."""
    path, work_s = path_of(project, "models", key, "test"), _MODEL_WAIT_S + 3 * timeout_s
    return Call("POST", path, ModelTrial.model_validate_json, idempotent=False, work_s=work_s)


def model_fields(
    base_url: str | None,
    model: str | None,
    api_key: str | None,
    defaults: ModelDefaults | Mapping[str, Any] | None,
    timeout_s: float | None,
) -> dict[str, object]:
    """The fields of a request for a model that say what is asked."""
    return {
        "base_url": base_url,
        "model": model,
        "api_key": api_key,
        "defaults": None if defaults is None else ModelDefaults.model_validate(defaults).model_dump(exclude_none=True),
        "timeout_s": timeout_s,
    }


def model_limits(
    max_concurrency: int | None,
    requests_per_minute: int | None,
    tokens_per_minute: int | None,
    price: Price | Mapping[str, Any] | None,
    keep_replies: bool | None,
) -> dict[str, object]:
    """The fields of a request for a model that say how often it is asked, and what that costs."""
    return {
        "max_concurrency": max_concurrency,
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "price": None if price is None else asdict(Price(**price) if isinstance(price, Mapping) else price),
        "keep_replies": keep_replies,
    }


def endpoint_fields(
    url: str | None,
    api_key: str | None,
    timeout_s: float | None,
    max_concurrency: int | None,
    requests_per_minute: int | None,
) -> dict[str, object]:
    """The fields of a request for an endpoint."""
    return {
        "url": url,
        "api_key": api_key,
        "timeout_s": timeout_s,
        "max_concurrency": max_concurrency,
        "requests_per_minute": requests_per_minute,
    }


def get_spending(project: str, period: str) -> Call[ProjectSpending]:
    """Requests the spending of the project's asks, in total or in a day or month."""
    path, params = path_of(project, "spending"), query(period=period or None)
    return Call("GET", path, ProjectSpending.model_validate_json, params=params)


def get_budget(project: str) -> Call[ProjectBudget]:
    """Requests the budget of the project."""
    return Call("GET", path_of(project, "budget"), ProjectBudget.model_validate_json)


def put_budget(project: str, fields: Mapping[str, Any]) -> Call[ProjectBudget]:
    """Sets the budget of the project."""
    return Call("PUT", path_of(project, "budget"), ProjectBudget.model_validate_json, body=encode(fields))


def delete_budget(project: str) -> Call[None]:
    """Removes the budget of the project."""
    return Call("DELETE", path_of(project, "budget"), nothing)


def test_endpoint(project: str, key: str, timeout_s: float) -> Call[EndpointTrial]:
    """Tests an endpoint with one request of at most `timeout_s` seconds."""
    path, work_s = path_of(project, "endpoints", key, "test"), _MODEL_WAIT_S + timeout_s
    return Call("POST", path, EndpointTrial.model_validate_json, idempotent=False, work_s=work_s)
