# Made from gradebox/client/_async by scripts/unasync. Do not edit it: edit what it is made from.
"""Graders, as a user handles them."""

from collections.abc import Sequence
from contextlib import suppress

from gradebox.client import calls
from gradebox.client._sync.creation import Creation
from gradebox.client._sync.scoring import Scoring
from gradebox.client._sync.transport import Transport
from gradebox.client._sync.versions import environment_of, versions
from gradebox.client.handles import GraderHandle
from gradebox.client.threads import Thread
from gradebox.client.versions import Ask, Function, check_isolation, source_of, update_call
from gradebox.errors import NotFound
from gradebox.frame import Listing
from gradebox.schemas import GRADER_COLUMNS, Grader, Isolation, Report, Version


class Graders:
    """The graders of the client's project."""

    def __init__(self, transport: Transport, project: str, scoring: Scoring) -> None:
        self._transport = transport
        self._project = project
        self._scoring = scoring
        self.create = Creation(transport, project, scoring)

    def validate(
        self,
        fn: Function,
        threads: Sequence[Thread] | None = None,
        isolation: Isolation | None = None,
        grader: str | None = None,
        environment: str | None = None,
        ask: Ask | None = None,
    ) -> Report:
        """Asks for the five checks; what is not valid is said in the report, and raises nothing.

        Without `threads`, the test run is made on those that stay with the grader of the key `grader`; without
        `environment`, in that of its newest version. `ask` is as for `create.function`.
        """
        check_isolation(isolation)
        if grader is not None:
            environment = environment_of(self._transport, self._project, grader, fn, environment)
        source = source_of(fn, environment)
        call = calls.validate(self._project, source, threads, isolation, grader, environment, ask)
        return self._transport.send(call)

    def get(self, key: str) -> GraderHandle:
        """One grader. Raises NotFound."""
        return self._held(self._transport.send(calls.get_grader(self._project, key)))

    def update(
        self,
        key: str,
        *,
        fn: Function | None = None,
        name: str | None = None,
        description: str | None = None,
        isolation: Isolation | None = None,
        timeout_s: float | None = None,
        memory_mb: int | None = None,
        threads: Sequence[Thread] | None = None,
        environment: str | None = None,
        ask: Ask | None = None,
    ) -> GraderHandle:
        """Gives a grader a new version, a name or a description. An unchanged source makes no new version.

        The test run is made on `threads`, which stay with the grader, or else on those that stayed with it before. A
        new version runs in the build of an environment that the last one ran in, unless `environment` names another,
        or "" for none. To change that alone, leave `fn` out. `ask` is as for `create.function`.

        Raises:
            SourceError, ValidationError: as for `create.function`; the grader stays as it was.
            Conflict: the grader is locked.
        """
        if fn is None and environment is not None:
            newest = self._transport.send(calls.get_grader(self._project, key))
            fn = (self._transport.send(calls.get_version(self._project, key, newest.version))).source
        environment = environment_of(self._transport, self._project, key, fn, environment)
        version = fn, isolation, timeout_s, memory_mb, threads, environment, ask
        return self._held(self._transport.send(update_call(self._project, key, name, description, *version)))

    def put(
        self,
        key: str,
        *,
        fn: Function,
        name: str | None = None,
        description: str | None = None,
        isolation: Isolation | None = None,
        timeout_s: float | None = None,
        memory_mb: int | None = None,
        threads: Sequence[Thread] | None = None,
        environment: str | None = None,
        ask: Ask | None = None,
    ) -> GraderHandle:
        """Makes the grader, or gives the one that there is a new version: for scripts that run again.

        Raises:
            SourceError, ValidationError, Conflict: as for `create.function` and `update`.
        """
        environment = environment_of(self._transport, self._project, key, fn, environment)
        version = fn, isolation, timeout_s, memory_mb, threads, environment, ask
        call = update_call(self._project, key, name, description, *version)
        with suppress(NotFound):
            return self._held(self._transport.send(call))
        return self.create.function(
            key=key,
            fn=fn,
            name=name,
            description=description,
            isolation=isolation,
            timeout_s=timeout_s,
            memory_mb=memory_mb,
            threads=threads,
            environment=environment,
            ask=ask,
        )

    def test_threads(self, key: str) -> Sequence[Thread]:
        """The threads that stay with a grader: those of its last proof that was sent some, as dicts."""
        return self._transport.send(calls.test_threads(self._project, key))

    def delete(self, key: str) -> None:
        """Deletes a grader. Batches that run keep the version they began with."""
        self._transport.send(calls.delete_grader(self._project, key))

    def lock(self, key: str, locked: bool = True) -> GraderHandle:
        """Keeps a grader from being changed or deleted, until it is unlocked with `locked=False`."""
        return self._held(self._transport.send(calls.patch_grader(self._project, key, {"locked": locked})))

    def versions(self, key: str) -> list[Version]:
        """All versions of a grader with their sources."""
        return versions(self._transport, self._project, key)

    def _held(self, grader: Grader) -> GraderHandle:
        return GraderHandle.of(grader, self._scoring)

    def list(self) -> Listing[GraderHandle]:
        """All graders of the project."""
        found, after = list[Grader](), ""
        while (more := self._transport.send(calls.list_graders(self._project, after))) and more[-1].key > after:
            found, after = found + more, more[-1].key
        return Listing((self._held(grader) for grader in found), GRADER_COLUMNS)
