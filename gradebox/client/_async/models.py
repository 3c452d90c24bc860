"""The models of a project: servers of chat completions that a user registers."""

from typing import Unpack

from gradebox.client._async.transport import AsyncTransport
from gradebox.client.calls import collection, server_calls
from gradebox.client.calls.server_calls import ModelFields, ModelOptions, model_body
from gradebox.client.versions import check_key
from gradebox.schemas import ModelTrial, ProjectModel


class AsyncModels:
    """The models of the client's project."""

    def __init__(self, transport: AsyncTransport, project: str) -> None:
        self._transport = transport
        self._project = project

    async def create(self, key: str, *, base_url: str, model: str, **options: Unpack[ModelOptions]) -> ProjectModel:
        """Registers a model of an OpenAI-compatible server. The service sends it no request yet.

        Args:
            key: the key of the model in the project.
            base_url: the base URL of the server, such as `https://api.openai.com/v1`.
            model: the name of the model on that server.
            options: `api_key` is stored encrypted and never returned. `timeout_s` seconds for one whole reply.
                `max_concurrency` requests may run at once, 16 by default. `requests_per_minute` and
                `tokens_per_minute` limit the rates. `defaults` are sent with each request. `input_price` and
                `output_price` are in US dollars for a million tokens. `keep_replies` says whether replies are kept
                and reused for equal requests.

        Raises:
            Conflict: the key is taken.
            NotAllowed: the operator does not allow this host.
        """
        check_key(key)
        fields = {"key": key, **model_body({"base_url": base_url, "model": model, **options})}
        return await self._transport.send(collection.models.create(self._project, fields))

    async def put(self, key: str, *, base_url: str, model: str, **options: Unpack[ModelOptions]) -> ProjectModel:
        """Registers a model, or changes the settings that are given if there is one with this key: for code that runs
        again. Arguments and errors are those of `create` and `update`.
        """
        check_key(key)
        fields = model_body({"base_url": base_url, "model": model, **options})
        return await self._transport.send(collection.models.put(self._project, key, fields))

    async def update(self, key: str, **fields: Unpack[ModelFields]) -> ProjectModel:
        """Changes the given settings. An empty `api_key` removes the key, and a rate of 0 removes the limit.

        `defaults` replace all current defaults.

        Raises:
            Conflict: the base URL changes, and the API key is not given again.
        """
        return await self._transport.send(collection.models.patch(self._project, key, model_body(fields)))

    async def test(self, key: str) -> ModelTrial:
        """Tests with three small requests whether the model answers and what its server supports.

        The service stores what the server supports. The method does not raise if the model does not answer: `error`
        then describes the failure and its remedy.
        """
        model = await self.get(key)
        return await self._transport.send(server_calls.test_model(self._project, key, model.timeout_s))

    async def get(self, key: str) -> ProjectModel:
        """One model. Raises NotFound."""
        return await self._transport.send(collection.models.get(self._project, key))

    async def list(self) -> list[ProjectModel]:
        """All models of the project."""
        return await self._transport.send(collection.models.list(self._project))

    async def delete(self, key: str) -> None:
        """Deletes a model with its API key."""
        await self._transport.send(collection.models.delete(self._project, key))
