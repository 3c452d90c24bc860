"""The environments of a project: packages that graders may import."""

from collections.abc import Sequence

from gradebox.client._async.transport import AsyncTransport
from gradebox.client.build_watch import BuildWatch
from gradebox.client.calls import collection, server_calls
from gradebox.client.environment_data import DataPath, zipped
from gradebox.client.versions import check_key
from gradebox.errors import Conflict, NotFound
from gradebox.schemas import Environment


class AsyncEnvironments:
    """The environments of the client's project."""

    def __init__(self, transport: AsyncTransport, project: str) -> None:
        self._transport = transport
        self._project = project

    async def create(
        self,
        key: str,
        packages: Sequence[str] = (),
        *,
        data: DataPath | None = None,
        wait: bool = True,
        progress: bool = True,
        timeout: float | None = None,
    ) -> Environment:
        """Creates an environment of these packages, as in `create("math", ["sympy==1.14", "math-verify"])`.

        Args:
            key: the key of the environment in the project.
            packages: the packages, with versions and extras.
            data: a folder, or a zip file of one. Graders find its files below the path in `ENVIRONMENT_DATA`.
            wait: wait until the environment is built.
            progress: print the progress of the build on stderr.
            timeout: how many seconds to wait; by default without a limit.

        Raises:
            EnvironmentFailed: the build failed; the message gives the reason.
            BuildTimeout: the build did not end in time. It continues.
            Conflict: the key is taken.
        """
        check_key(key)
        fields = {"key": key, "packages": _listed(packages), "data": await self._send(data)}
        environment = await self._transport.send(collection.environments.create(self._project, fields))
        return await self._watch(environment, BuildWatch(progress, timeout)) if wait else environment

    async def update(
        self,
        key: str,
        packages: Sequence[str] | None = None,
        *,
        data: DataPath | None = None,
        wait: bool = True,
        progress: bool = True,
        timeout: float | None = None,
    ) -> Environment:
        """Makes a new build with these packages instead of the current ones. Graders keep the build that they use.

        If `packages` or `data` is None, the new build has the current packages or data; `data=""` removes the data.
        The same packages and data make no new build, unless the last one failed, was for another Python version
        or is lost. Raises the same exceptions as `create`.
        """
        listed = None if packages is None else _listed(packages)
        fields = {"packages": listed, "data": await self._send(data)}
        environment = await self._transport.send(server_calls.put_environment(self._project, key, fields))
        return await self._watch(environment, BuildWatch(progress, timeout)) if wait else environment

    async def put(
        self,
        key: str,
        packages: Sequence[str] | None = None,
        *,
        data: DataPath | None = None,
        wait: bool = True,
        progress: bool = True,
        timeout: float | None = None,
    ) -> Environment:
        """Creates an environment, or updates it if there is one with this key: for code that runs again. Arguments and
        errors are those of `update`, without NotFound.
        """
        check_key(key)
        fields = {"packages": None if packages is None else _listed(packages), "data": await self._send(data)}
        update = server_calls.put_environment(self._project, key, fields)
        try:
            environment = await self._transport.send(update)
        except NotFound:
            new = {"key": key} | {name: value for name, value in fields.items() if value is not None}
            try:
                environment = await self._transport.send(collection.environments.create(self._project, new))
            except Conflict:  # created meanwhile
                environment = await self._transport.send(update)
        return await self._watch(environment, BuildWatch(progress, timeout)) if wait else environment

    async def _send(self, data: DataPath | None) -> str | None:
        """Uploads data and returns its SHA-256. Returns "" for no data, and None to keep the current data."""
        if data is None or data == "":
            return data
        return (await self._transport.send(server_calls.send_data(self._project, zipped(data)))).sha256

    async def wait(self, key: str, *, progress: bool = True, timeout: float | None = None) -> Environment:
        """Waits until the newest build is ready. Raises the same exceptions as `create`."""
        watch = BuildWatch(progress, timeout)
        call = server_calls.wait_for_environment(self._project, key, 0, watch.left_s)
        return await self._watch(await self._transport.send(call), watch)

    async def _watch(self, environment: Environment, watch: BuildWatch) -> Environment:
        with watch:
            while (wait_s := watch.observe(environment)) is not None:
                call = server_calls.wait_for_environment(self._project, environment.key, wait_s, watch.left_s)
                environment = await self._transport.send(call)
        return environment

    async def get(self, key: str) -> Environment:
        """One environment with all its builds. Raises NotFound."""
        return await self._transport.send(collection.environments.get(self._project, key))

    async def list(self) -> list[Environment]:
        """All environments of the project, each with its newest build."""
        return await self._transport.send(collection.environments.list(self._project))

    async def delete(self, key: str) -> None:
        """Deletes an environment. Raises Conflict while a version of a grader uses it."""
        await self._transport.send(collection.environments.delete(self._project, key))


def _listed(packages: Sequence[str]) -> list[str]:
    return [packages] if isinstance(packages, str) else list(packages)
