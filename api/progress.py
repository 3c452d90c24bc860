"""The progress of batches, for streams of events: Redis is asked for a batch once, however many streams watch it."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

from anyio import CapacityLimiter, move_on_after
from anyio.to_thread import run_sync
from redis.exceptions import RedisError

from gradebox.schemas import ENDED, Batch
from storage.errors import NotFound
from storage.store import Store

POLL_S = 0.25
EACH_S = 0.005  # with many batches each is asked for less often: together they are some 200 questions a second
THREADS = 4  # of their own, so that streams take none of those in which API keys are looked up


class Progress:
    """One batch, as it was when Redis was last asked.

    Attributes:
        text: the batch as JSON, without its summary until it `is_over`.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.text = batch.model_dump_json(exclude={"summary"})
        self.is_over = False
        self.streams = 0
        self.poller: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def show(self, batch: Batch) -> None:
        """Tells all streams, where it has changed."""
        if batch != self.batch:
            self.batch, self.text = batch, batch.model_dump_json(exclude={"summary"})
            self._tell()

    def end(self, batch: Batch) -> None:
        """Tells all streams that it is over."""
        self.text, self.is_over = batch.model_dump_json(), True
        self._tell()

    async def changed(self) -> None:
        """Returns when it has changed. Raises what ended the poller, as when the batch was deleted."""
        assert self.poller is not None
        waiting = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait([waiting, self.poller], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self.poller.done():
            self.poller.result()

    def _tell(self) -> None:
        told, self._changed = self._changed, asyncio.Event()
        told.set()


class Watching:
    """All batches that streams of this process watch."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = CapacityLimiter(THREADS)
        self._watched: dict[tuple[str, str], Progress] = {}

    async def watch(self, batch: Batch) -> AsyncGenerator[Progress, None]:
        """The progress of a batch, now and whenever it has changed, until it is over."""
        name = (batch.project, batch.id)
        progress = self._watched.setdefault(name, Progress(batch))
        progress.streams += 1
        if progress.poller is None:
            progress.poller = asyncio.create_task(self._poll(progress))
        try:
            while True:
                shown, is_last = progress.text, progress.is_over
                yield progress
                if is_last:
                    return
                while progress.text is shown:
                    await progress.changed()
        except NotFound:
            return  # it was deleted: its streams end without an end of the batch
        finally:
            progress.streams -= 1
            if not progress.streams:
                self._watched.pop(name, None)
                progress.poller.cancel()

    async def _poll(self, progress: Progress) -> None:
        ended = asyncio.Event()
        call = partial(asyncio.get_running_loop().call_soon_threadsafe, ended.set)
        with self._store.endings.calling(progress.batch.id, call):
            while not progress.is_over:
                with move_on_after(max(POLL_S, EACH_S * len(self._watched))):
                    await ended.wait()
                ended.clear()
                await self._ask(progress)

    async def _ask(self, progress: Progress) -> None:
        try:
            batch = await self._get(progress.batch, summary=False)
            if batch.state in ENDED:
                progress.end(await self._get(batch, summary=True))
            else:
                progress.show(batch)
        except RedisError:
            return  # it comes back, or the clients go away

    async def _get(self, batch: Batch, summary: bool) -> Batch:
        get = partial(self._store.batches.get, batch.project, batch.id, summary=summary)
        return await run_sync(get, limiter=self._threads)
