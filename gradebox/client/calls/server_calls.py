"""Requests about environments, models, endpoints and what they cost."""

from collections.abc import Mapping
from typing import Any, TypedDict

from gradebox.client.calls.call import Call, encode, nothing
from gradebox.client.calls.paths import path_of, query
from gradebox.options import check_known
from gradebox.schemas import (
    EndpointTrial,
    Environment,
    EnvironmentData,
    ModelDefaults,
    ModelTrial,
    ProjectBudget,
    ProjectSpending,
)

DATA_S = 60.0  # to inspect a zip file, including the wait for other requests
_MODEL_WAIT_S = 60.0  # to wait for other requests before the test of a model or endpoint


class ServerOptions(TypedDict, total=False):
    """The settings of an endpoint or a model that have a default. Those that are None are not sent."""

    api_key: str | None
    """The API key to send. The service stores it encrypted and never returns it; an empty one removes it."""
    timeout_s: float | None
    """Seconds for one whole reply."""
    max_concurrency: int | None
    """How many requests may run at once, 16 by default."""
    requests_per_minute: int | None
    """A limit on the request rate; 0 removes it."""


class EndpointOptions(ServerOptions, total=False):
    """The settings of an endpoint that have a default. Those that are None are not sent."""

    headers: Mapping[str, str] | None
    """Headers of each request. The service stores the values encrypted and never returns them. They replace all headers
    that there are; an empty mapping removes them."""


class EndpointFields(EndpointOptions, total=False):
    """All settings of an endpoint."""

    url: str | None
    """The URL of the server."""


class ModelOptions(ServerOptions, total=False):
    """The settings of a model that have a default. Those that are None are not sent."""

    defaults: ModelDefaults | Mapping[str, Any] | None
    """Parameters that are sent with each request."""
    tokens_per_minute: int | None
    """A limit on the rate of input and output tokens; 0 removes it."""
    input_price: float | None
    """US dollars for a million input tokens."""
    output_price: float | None
    """US dollars for a million output tokens."""
    keep_replies: bool | None
    """Whether replies are kept and reused for equal requests."""


class ModelFields(ModelOptions, total=False):
    """All settings of a model."""

    base_url: str | None
    """The base URL of the server, such as `https://api.openai.com/v1`."""
    model: str | None
    """The name of the model on that server."""


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


def endpoint_body(fields: EndpointFields) -> dict[str, Any]:
    """The body of a request for an endpoint. Raises TypeError for an unknown option."""
    check_known(fields, EndpointFields.__annotations__, "an endpoint")
    body: dict[str, Any] = {**fields}
    if (headers := fields.get("headers")) is not None:
        body["headers"] = dict(headers)
    return body


def model_body(fields: ModelFields) -> dict[str, Any]:
    """The body of a request for a model. Raises TypeError for an unknown option."""
    check_known(fields, ModelFields.__annotations__, "a model")
    body: dict[str, Any] = {**fields}
    if (defaults := fields.get("defaults")) is not None:
        body["defaults"] = ModelDefaults.model_validate(defaults).model_dump(exclude_none=True)
    return body


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
