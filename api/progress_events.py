"""The progress of batches for event streams. Each poll reads a batch from Redis once, however many streams watch it."""

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
EACH_S = 0.005  # with many batches each is polled less often: Redis receives some 200 requests a second in total
THREADS = 4  # a separate limit, so that streams take none of the threads that look up API keys


class Progress:
    """One batch, as last read from Redis.

    Attributes:
        text: the batch as JSON, without its summary until `is_over`.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.text = batch.model_dump_json(exclude={"summary"})
        self.is_over = False
        self.streams = 0
        self.poller: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def show(self, batch: Batch) -> None:
        """Updates the batch and wakes all streams, if it has changed."""
        if batch != self.batch:
            self.batch, self.text = batch, batch.model_dump_json(exclude={"summary"})
            self._wake()

    def end(self, batch: Batch) -> None:
        """Marks the batch as over and wakes all streams."""
        self.text, self.is_over = batch.model_dump_json(), True
        self._wake()

    async def changed(self) -> None:
        """Returns when the batch has changed. Raises the exception that ended the poller, e.g. if the batch was
        deleted.
        """
        assert self.poller is not None
        waiting = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait([waiting, self.poller], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self.poller.done():
            self.poller.result()

    def _wake(self) -> None:
        told, self._changed = self._changed, asyncio.Event()
        told.set()


class Watching:
    """All batches that are watched by streams of this process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = CapacityLimiter(THREADS)
        self._watched: dict[tuple[str, str], Progress] = {}

    async def watch(self, batch: Batch) -> AsyncGenerator[Progress, None]:
        """Yields the progress of a batch, now and on each change, until the batch is over."""
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
            return  # the batch was deleted: its streams end without a final event
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
            return  # keep polling: Redis may return, or the clients disconnect

    async def _get(self, batch: Batch, summary: bool) -> Batch:
        get = partial(self._store.batches.get, batch.project, batch.id, summary=summary)
        return await run_sync(get, limiter=self._threads)
