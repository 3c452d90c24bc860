# Made from gradebox/client/_async by scripts/unasync. Do not edit it: edit what it is made from.
"""The endpoints of a project: reward servers that a user registers."""

from typing import Unpack

from gradebox.client._sync.transport import Transport
from gradebox.client.calls import collection, server_calls
from gradebox.client.calls.server_calls import EndpointFields, EndpointOptions, endpoint_body
from gradebox.client.versions import check_key
from gradebox.schemas import EndpointTrial, ProjectEndpoint


class Endpoints:
    """The endpoints of the client's project."""

    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._project = project

    def create(self, key: str, *, url: str, **options: Unpack[EndpointOptions]) -> ProjectEndpoint:
        """Registers a reward server that answers `POST {url}/score`. The service sends it no request yet.

        Args:
            key: the key of the endpoint in the project.
            url: the URL of the server.
            options: `api_key` and the values of `headers`, which are sent with each request, are stored encrypted and
                never returned. `timeout_s` seconds for one whole reply. `max_concurrency` requests may run at once, 16
                by default. `requests_per_minute` limits the rate.

        Raises:
            Conflict: the key is taken.
            NotAllowed: the operator does not allow this host.
        """
        check_key(key)
        fields = {"key": key, **endpoint_body({"url": url, **options})}
        return self._transport.send(collection.endpoints.create(self._project, fields))

    def put(self, key: str, *, url: str, **options: Unpack[EndpointOptions]) -> ProjectEndpoint:
        """Registers an endpoint, or changes the settings that are given if there is one with this key: for code that
        runs again. Arguments and errors are those of `create` and `update`.
        """
        check_key(key)
        return self._transport.send(
            collection.endpoints.put(self._project, key, endpoint_body({"url": url, **options}))
        )

    def update(self, key: str, **fields: Unpack[EndpointFields]) -> ProjectEndpoint:
        """Changes the given settings. `headers` replace all headers. An empty `api_key` removes the key, `{}` the
        headers, and a rate of 0 the limit.

        Raises:
            Conflict: the URL changes, and the API key or the headers are not given again.
        """
        return self._transport.send(collection.endpoints.patch(self._project, key, endpoint_body(fields)))

    def test(self, key: str) -> EndpointTrial:
        """Tests the endpoint with one small thread.

        The method does not raise if the endpoint does not answer: `error` then describes the failure and its remedy.
        """
        endpoint = self.get(key)
        return self._transport.send(server_calls.test_endpoint(self._project, key, endpoint.timeout_s))

    def get(self, key: str) -> ProjectEndpoint:
        """One endpoint. Raises NotFound."""
        return self._transport.send(collection.endpoints.get(self._project, key))

    def list(self) -> list[ProjectEndpoint]:
        """All endpoints of the project."""
        return self._transport.send(collection.endpoints.list(self._project))

    def delete(self, key: str) -> None:
        """Deletes an endpoint with its API key and headers."""
        self._transport.send(collection.endpoints.delete(self._project, key))
