# Made from gradebox/client/_async by scripts/unasync. Do not edit it: edit what it is made from.
"""The models of a project: servers of chat completions that a user registers."""

from collections.abc import Mapping
from typing import Any

from gradebox.client._sync.transport import Transport
from gradebox.client.calls import collection, server_calls
from gradebox.client.versions import check_key
from gradebox.schemas import ModelDefaults, ModelTrial, Price, ProjectModel


class Models:
    """The models of the client's project."""

    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._project = project

    def create(
        self,
        key: str,
        *,
        base_url: str,
        model: str,
        api_key: str | None = None,
        defaults: ModelDefaults | Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        max_concurrency: int | None = None,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        price: Price | Mapping[str, Any] | None = None,
        keep_replies: bool | None = None,
    ) -> ProjectModel:
        """Registers a model of an OpenAI-compatible server. The service sends it no request yet.

        Args:
            key: the key of the model in the project.
            base_url: the base URL of the server, such as `https://api.openai.com/v1`.
            model: the name of the model on that server.
            api_key: the API key to send. The service stores it encrypted and never returns it.
            defaults: parameters that are sent with each request.
            timeout_s: seconds for one whole reply.
            max_concurrency: how many requests may run at once, 16 by default.
            requests_per_minute: a limit on the request rate.
            tokens_per_minute: a limit on the rate of input and output tokens.
            price: the price of a million tokens.
            keep_replies: whether replies are kept and reused for equal requests.

        Raises:
            Conflict: the key is taken.
            NotAllowed: the operator does not allow this host.
        """
        check_key(key)
        limits = server_calls.model_limits(max_concurrency, requests_per_minute, tokens_per_minute, price, keep_replies)
        fields = {"key": key, **server_calls.model_fields(base_url, model, api_key, defaults, timeout_s), **limits}
        return self._transport.send(collection.models.create(self._project, fields))

    def update(
        self,
        key: str,
        *,
        base_url: str | None = None,
        model: str | None = None,
        api_key: str | None = None,
        defaults: ModelDefaults | Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        max_concurrency: int | None = None,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        price: Price | Mapping[str, Any] | None = None,
        keep_replies: bool | None = None,
    ) -> ProjectModel:
        """Changes the given settings. An empty `api_key` removes the key, and a rate of 0 removes the limit.

        `defaults` replace all current defaults.

        Raises:
            Conflict: the base URL changes, and the API key is not given again.
        """
        limits = server_calls.model_limits(max_concurrency, requests_per_minute, tokens_per_minute, price, keep_replies)
        fields = {**server_calls.model_fields(base_url, model, api_key, defaults, timeout_s), **limits}
        return self._transport.send(collection.models.patch(self._project, key, fields))

    def test(self, key: str) -> ModelTrial:
        """Tests with three small requests whether the model answers and what its server supports.

        The service stores what the server supports. The method does not raise if the model does not answer: `error`
        then describes the failure and its remedy.
        """
        model = self.get(key)
        return self._transport.send(server_calls.test_model(self._project, key, model.timeout_s))

    def get(self, key: str) -> ProjectModel:
        """One model. Raises NotFound."""
        return self._transport.send(collection.models.get(self._project, key))

    def list(self) -> list[ProjectModel]:
        """All models of the project."""
        return self._transport.send(collection.models.list(self._project))

    def delete(self, key: str) -> None:
        """Deletes a model with its API key."""
        self._transport.send(collection.models.delete(self._project, key))
