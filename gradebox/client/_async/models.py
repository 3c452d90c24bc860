"""Models, as a user registers them: servers of chat completions."""

from gradebox.client import calls
from gradebox.client._async.transport import AsyncTransport
from gradebox.client.versions import check_key
from gradebox.schemas import ModelDefaults, ModelTrial, ProjectModel


class AsyncModels:
    """The models of the client's project."""

    def __init__(self, transport: AsyncTransport, project: str) -> None:
        self._transport = transport
        self._project = project

    async def create(
        self,
        key: str,
        *,
        base_url: str,
        model: str,
        api_key: str | None = None,
        defaults: ModelDefaults | None = None,
        timeout_s: float | None = None,
    ) -> ProjectModel:
        """Keeps a model of any OpenAI-compatible server; nothing is asked of it yet.

        `model` is its name there. The service keeps `api_key` encrypted and never shows it again.

        Raises:
            Conflict: the key is taken.
            NotAllowed: the operator does not allow this host.
        """
        check_key(key)
        fields = {"key": key, **_fields(base_url, model, api_key, defaults, timeout_s)}
        return await self._transport.send(calls.create_model(self._project, fields))

    async def update(
        self,
        key: str,
        *,
        base_url: str | None = None,
        model: str | None = None,
        api_key: str | None = None,
        defaults: ModelDefaults | None = None,
        timeout_s: float | None = None,
    ) -> ProjectModel:
        """Changes what is given. An empty `api_key` removes the key; `defaults` are replaced as a whole.

        Another base URL needs the API key again: Conflict without it.
        """
        fields = _fields(base_url, model, api_key, defaults, timeout_s)
        return await self._transport.send(calls.patch_model(self._project, key, fields))

    async def test(self, key: str) -> ModelTrial:
        """Asks the model whether it answers, and what its server can do, which is kept. Three small requests.

        A model that does not answer raises nothing: `error` says what happened and what to do.
        """
        model = await self.get(key)
        return await self._transport.send(calls.test_model(self._project, key, model.timeout_s))

    async def get(self, key: str) -> ProjectModel:
        """One model. Raises NotFound."""
        return await self._transport.send(calls.get_model(self._project, key))

    async def list(self) -> list[ProjectModel]:
        """All models of the project."""
        return await self._transport.send(calls.list_models(self._project))

    async def delete(self, key: str) -> None:
        """Deletes a model with its API key."""
        await self._transport.send(calls.delete_model(self._project, key))


def _fields(
    base_url: str | None,
    model: str | None,
    api_key: str | None,
    defaults: ModelDefaults | None,
    timeout_s: float | None,
) -> dict[str, object]:
    return {
        "base_url": base_url,
        "model": model,
        "api_key": api_key,
        "defaults": None if defaults is None else defaults.model_dump(exclude_none=True),
        "timeout_s": timeout_s,
    }
