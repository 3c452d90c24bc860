"""Receives the threads of a new batch, as JSON lines or as one JSON body."""

import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import chain, repeat
from typing import Annotated, NamedTuple, TypeVar, TypeVarTuple

import msgspec
from anyio import CancelScope
from anyio.to_thread import run_sync
from fastapi import Request

from api.access.callers import WaitingClient, gone, watched
from api.http.problems import invalid, too_large
from api.intake import bodies
from api.intake.grader_of_batch import refuse_feedback
from api.intake.idempotency import Repeat, expired
from api.intake.source_upload import VersionNumber
from api.services import Services
from gradebox.schemas import Batch, FeedbackOf, Limits, Replies
from storage.batch_plan import AskTerms, UploadedBatch, Wanted, lane_of
from storage.batches import batch_threads
from storage.errors import NotFound, PayloadLost
from storage.models.spending import Budget
from storage.uploads import Upload

JSON_BYTES = 64 * bodies.MIB
GRADERS_BYTES = 64 * 1024  # of a JSON body
MOST_USD, MOST_TOKENS = 10**9, 10**15  # of a budget
_AT_ONCE = 1000  # threads written to the spool together

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


class GraderOf(msgspec.Struct, forbid_unknown_fields=True):
    """A grader of a batch; its newest version by default."""

    key: str
    version: VersionNumber | None = None
    weight: float | msgspec.UnsetType = msgspec.UNSET  # null, as JavaScript writes NaN, is refused


class BudgetOfBatch(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The limit of spending for a batch's asks: US dollars, tokens or both."""

    usd: Annotated[float, msgspec.Meta(ge=0, le=MOST_USD)] | None = None
    tokens: Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)] | None = None


class NewBatch(msgspec.Struct, forbid_unknown_fields=True):
    """A batch as one JSON body, with threads or with a reference to another batch of the project for its threads."""

    graders: Annotated[
        list[GraderOf],
        msgspec.Meta(description="at most 16, or as the project's limit is", extra_json_schema={"minItems": 1}),
    ]
    threads: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    threads_of: Annotated[str, msgspec.Meta(max_length=80)] | None = None
    budget: BudgetOfBatch | None = None
    replies: Replies = "kept"


class _Sent(NewBatch, kw_only=True):
    """A batch whose graders are not parsed: to make objects of 60 MB of them would hold up all requests for seconds."""

    graders: msgspec.Raw  # type: ignore[assignment]


class _Graders(msgspec.Struct):
    """The graders of a JSON body."""

    graders: list[GraderOf]


def _parsed(body: bytes, most_graders: int) -> NewBatch:
    """Parses a batch as one JSON body. Raises ProblemError."""
    sent = bodies.parse(body, _Sent)
    graders = bytes(sent.graders)
    if len(graders) > GRADERS_BYTES:
        size = f"`graders` is {len(graders)} bytes long, and may have {GRADERS_BYTES}"
        raise too_large(f"{size}: name at most {most_graders}")
    found = bodies.parse(b'{"graders":%b}' % graders, _Graders)
    return NewBatch(found.graders, sent.threads, sent.threads_of, sent.budget, sent.replies)


def terms_of(budget: BudgetOfBatch | None, replies: Replies) -> AskTerms:
    """Returns the terms under which the graders of a batch may ask. Raises ProblemError if the budget has no limit."""
    if budget is None:
        return AskTerms(None, replies)
    if budget.usd is None and budget.tokens is None:
        raise invalid("a budget names `usd`, `tokens` or both")
    return AskTerms(Budget(budget.usd, budget.tokens), replies)


def named(name: str, weight: float | msgspec.UnsetType = msgspec.UNSET) -> GraderOf:
    """Parses the name of a grader: `key` or `key@version`. Raises ProblemError."""
    key, at, version = name.partition("@")
    if at and not (version.isascii() and version.isdigit() and int(version[:18]) > 0):
        raise invalid(f"{name!r} names no version: write it as key@3, or without the @ for the newest")
    return GraderOf(key, int(version[:18]) if at else None, weight)


def weighted(graders: Sequence[str], weights: Sequence[float]) -> list[GraderOf]:
    """Parses the graders of a query, with a weight for each or none at all. Raises ProblemError."""
    if weights and len(weights) != len(graders):
        raise invalid(f"there are {len(graders)} graders and {len(weights)} weights: give one for each, or none")
    return list(map(named, graders, weights or repeat(msgspec.UNSET)))


def resolve(services: Services, project: str, graders: Sequence[GraderOf], most: int) -> list[Wanted]:
    """Resolves the versions of at most `most` graders. Raises ProblemError, NotFound for a missing grader, NotRunnable,
    and QueueFull.
    """
    if not graders:
        raise invalid("the batch names no grader: name at least one, as `grader=key` or in `graders`")
    if len(graders) > most:
        raise invalid(f"the batch names {len(graders)} graders, and at most {most} score one batch")
    if not all(math.isfinite(grader.weight or 0.0) for grader in graders):
        raise invalid("a weight is a finite number")
    services.store.backlog.check(project)  # before the threads are received, which may be gigabytes
    wanted = [
        Wanted(
            grader.key,
            services.store.graders.runnable(project, grader.key, grader.version),
            None if grader.weight is msgspec.UNSET else grader.weight,
        )
        for grader in graders
    ]
    if len({one.label for one in wanted}) < len(wanted):
        raise invalid("the batch names a grader twice in the same version: name it once")
    _refuse_mixed(wanted)
    return wanted


def refuse_unlimited(services: Services, project: str, wanted: Sequence[Wanted], budget: Budget | None) -> None:
    """Refuses a budget of money for models without prices, because it would not limit them."""
    if budget is None or budget.usd is None:
        return
    asked = _asked_models(services, project, wanted)
    unpriced = [key for key in services.store.models.unpriced(project) if key in asked]
    if unpriced:
        raise invalid(
            f"a budget in USD does not limit {', '.join(unpriced)}, which has no price: set `input_price` and "
            "`output_price`, 0 if it costs nothing, or give a budget of tokens"
        )


def _asked_models(services: Services, project: str, wanted: Sequence[Wanted]) -> set[str]:
    """The keys of the models that graders may ask, also through graders that they ask."""
    own = [one.version for one in wanted]
    asked = (version for _, version in services.store.graders.asked_by(project, own))  # may be all of the project
    asks = [ask.partition(":") for version in chain(own, asked) for ask in version.asks]
    return {key for kind, _, key in asks if kind == "model"}


def _refuse_mixed(wanted: Sequence[Wanted]) -> None:
    """Refuses graders of groups beside graders of threads, because a line is either a thread or a group."""
    of_groups = [one.label for one in wanted if one.version.groups]
    of_threads = [one.label for one in wanted if not one.version.groups]
    if of_groups and of_threads:
        raise invalid(
            f"{', '.join(of_groups)} takes groups of threads and {', '.join(of_threads)} takes single threads, but a "
            f"line of a batch is one or the other: create a batch for each"
        )


class Arrival(NamedTuple):
    """Receives a new batch for a project with these limits, sent with the API key `by`, possibly as a repeated request.

    All of it except receiving the body waits for Redis or the disk. It uses few thread hops, because each costs 0.06
    ms.
    """

    services: Services
    project: str
    limits: Limits
    by: str
    repeat: Repeat

    async def take_lines(self, request: Request, graders: Sequence[GraderOf], terms: AskTerms) -> Batch:
        """Streams JSON lines to the spool.

        Raises ProblemError, and what Upload raises. Nothing is left in the spool after an error or a broken connection.
        """
        begun = await self._in_turn(self._begin_unless_answered, graders, terms)
        if begun is None:
            return await self._skip(request)
        wanted, upload = begun
        async with _abandoned_after_an_error(upload):
            await bodies.pour(request, self.limits.batch_bytes, upload.write, "send the rest as another batch")
            return await run_sync(self._accept, wanted, upload, terms)

    async def take_body(self, request: Request) -> Batch:
        """Receives a JSON body. Raises as `take_lines` does."""
        if await run_sync(self._is_answered):
            return await self._skip(request)
        body = await bodies.read(request, JSON_BYTES, "send it as JSON lines (application/x-ndjson)")
        new, threads = await run_sync(self._parse, body)
        if new.threads_of is not None:
            return await self.take_threads_of(request, new)
        terms = terms_of(new.budget, new.replies)
        wanted, upload = await self._in_turn(self._begin, new.graders, terms)
        async with _abandoned_after_an_error(upload):
            return await run_sync(self._take, threads, wanted, upload, terms)

    async def take_threads_of(self, request: Request, new: NewBatch) -> Batch:
        """Creates a batch with the threads of another one, for other graders. Raises as `copy` does."""
        if (before := await run_sync(self.services.store.acceptance.answered, self.repeat.once)) is not None:
            return before
        terms = terms_of(new.budget, new.replies)
        return await self.copy(request, new.threads_of or "", lambda: self._begin_copy(new), terms)

    async def copy(
        self,
        request: Request,
        source: str,
        begin: Callable[[], tuple[Iterator[bytes], list[Wanted], Upload]],
        terms: AskTerms,
        feedback_of: FeedbackOf | None = None,
    ) -> Batch:
        """Creates a batch from the lines of batch `source`, block by block: they may be gigabytes, and other requests
        take turns. Raises what `begin` raises, and as `take_lines` does.
        """
        blocks, wanted, upload = await self._in_turn(begin)
        try:
            async with _abandoned_after_an_error(upload):
                async with watched(request) as client:
                    async for block in self.services.large_answers.stream(request, blocks):
                        if client.is_gone():
                            raise gone()
                        await run_sync(upload.write, block)
                return await run_sync(self._accept, wanted, upload, terms, feedback_of)
        except PayloadLost as error:
            raise NotFound(f"the threads of batch {source!r} no longer exist: send them again") from error

    async def _in_turn(self, work: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Runs `work`, which may read all graders of the project, in a thread that projects share. It writes nothing to
        the spool, which may be slow. Raises ProblemError if none was free in time, and what `work` raises.
        """
        return await self.services.reading.run(WaitingClient(), self.project, work, *args)

    def _begin_copy(self, new: NewBatch) -> tuple[Iterator[bytes], list[Wanted], Upload]:
        store, source = self.services.store, new.threads_of or ""
        refuse_feedback(store.batches.get(self.project, source, summary=False))
        blocks = batch_threads.read(store.batches, source)
        wanted, upload = self._begin(new.graders, terms_of(new.budget, new.replies))
        return blocks, wanted, upload

    def _parse(self, body: bytes) -> tuple[NewBatch, list[bytes]]:
        """Returns the parsed body and its threads; none if they are those of another batch."""
        limits = self.limits
        new = _parsed(body, limits.batch_graders)
        has_threads = bool(bytes(new.threads))
        if has_threads == (new.threads_of is not None):
            raise invalid("a batch takes `threads`, or `threads_of` another batch: give one of them")
        if not has_threads:
            return new, []
        return new, bodies.lines(new.threads, limits.batch_threads, self.services.line_bytes, "send several batches")

    def _take(self, threads: list[bytes], wanted: list[Wanted], upload: Upload, terms: AskTerms) -> Batch:
        for first in range(0, len(threads), _AT_ONCE):
            upload.write(*[line + b"\n" for line in threads[first : first + _AT_ONCE]])
        return self._accept(wanted, upload, terms)

    def _begin_unless_answered(
        self, graders: Sequence[GraderOf], terms: AskTerms
    ) -> tuple[list[Wanted], Upload] | None:
        return None if self._is_answered() else self._begin(graders, terms)

    def _begin(self, graders: Sequence[GraderOf], terms: AskTerms) -> tuple[list[Wanted], Upload]:
        """Returns the resolved graders, and an upload for the threads."""
        wanted = resolve(self.services, self.project, graders, self.limits.batch_graders)
        refuse_unlimited(self.services, self.project, wanted, terms.budget)
        return wanted, self.upload(wanted)

    def upload(self, wanted: list[Wanted]) -> Upload:
        """Returns an upload for threads that these graders are to score."""
        services, limits = self.services, self.limits
        bounds = services.line_bytes, limits.batch_threads, limits.batch_bytes
        return Upload(services.store, self.project, wanted, *bounds)

    def _accept(
        self, wanted: list[Wanted], upload: Upload, terms: AskTerms, feedback_of: FeedbackOf | None = None
    ) -> Batch:
        new = UploadedBatch(upload.id, self.project, wanted, upload.finish(), self.by, terms, feedback_of)
        if lane_of(wanted) == "asking" and (file := self.services.settings.asking_file) is not None:
            file.touch()
        batch = self.services.dispatch.accept(new, self.repeat.once)
        if batch.id == upload.id:  # else the batch of an earlier, identical request
            self.services.metrics.accepted.inc()
        return batch

    def _is_answered(self) -> bool:
        """Whether this is a repeated request: nothing of it is stored."""
        return self.services.store.acceptance.has_answered(self.repeat.once)

    async def _skip(self, request: Request) -> Batch:
        """Reads and discards the body, and returns the answer to the first request."""
        await bodies.skip(request, self.services.store.backlog.bounds.spool_bytes)  # the limit may have been higher
        found = await run_sync(self.services.store.acceptance.answered, self.repeat.once)
        if found is None:
            raise expired()
        return found


@asynccontextmanager
async def _abandoned_after_an_error(upload: Upload) -> AsyncIterator[None]:
    """Leaves nothing of the upload if the block is cancelled or raises."""
    try:
        yield
    except BaseException:
        with CancelScope(shield=True):
            await run_sync(upload.abandon)
        raise
