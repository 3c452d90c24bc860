"""Sends calls and reads their answers, with retries."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from math import inf
from time import monotonic
from typing import TypeVar

import httpx

from gradebox.client.calls.call import Call, is_answer
from gradebox.client.connections import AsyncClientConnections
from gradebox.client.line_readers import StreamReader
from gradebox.client.rules import Rules, error_of, settle
from gradebox.client.slow_calls import told_if_slow
from gradebox.client.threads import Resend, length

T = TypeVar("T")


class AsyncTransport:
    """Sends calls, retries them if they fail, and reads their answers."""

    def __init__(self, rules: Rules, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.rules = rules
        self._connections = AsyncClientConnections(rules, transport)

    async def send(self, call: Call[T]) -> T:
        """Sends a call and returns its answer.

        Raises:
            GradeboxError: the service refused the call, or did not answer.
            ValueError: a file of threads became shorter meanwhile, or grew in the middle of a line.
        """
        resend = Resend(call.threads)
        size = length(call.threads)  # once: each try sends the same bytes of a file that grows
        ends, failed_at = monotonic() + call.within_s, inf
        for attempt in count():
            body = {"content": resend.async_blocks(size)} if call.threads is not None else {}
            failure: httpx.Response | httpx.HTTPError
            try:
                request = self.rules.request(call, size, ends - monotonic())
                with told_if_slow(call.if_slow):  # not while no connection is made, or between two tries
                    failure = await self._connections.http.request(**request | body)
            except httpx.HTTPError as error:
                if error is resend.failed:
                    raise
                failure = error
            except KeyboardInterrupt:
                self._connections.renew()
                raise
            now = monotonic()
            failed_at, left = min(failed_at, now), ends - now
            pause = self.rules.pause(attempt, call.idempotent and resend.possible, failure, now - failed_at)
            if pause is None or left <= 0:
                break
            await asyncio.sleep(min(pause, left))
            resend.rewind()
        if isinstance(failure, httpx.HTTPError):
            self._connections.check_open()  # what closing broke is no fault of the service
        return settle(call, failure, self.rules, attempt)

    async def lines(self, path: str, reader: StreamReader[T]) -> AsyncIterator[T]:
        """Yields the items that `reader` reads from a stream, and resumes the stream if the connection breaks."""
        attempt, failed_at = 0, inf
        while True:
            failure: httpx.Response | httpx.HTTPError
            try:
                async with self._connections.http.stream("GET", path, params=reader.params) as response:
                    self.rules.reached = True
                    if is_answer(response):
                        async for block in response.aiter_bytes():
                            for each in reader.feed(block):
                                attempt, failed_at = 0, inf
                                yield each
                        for each in reader.end():
                            yield each
                        return
                    await response.aread()
                    failure = response
            except httpx.HTTPError as error:
                failure = error
            except KeyboardInterrupt:
                self._connections.renew()
                raise
            failed_at = min(failed_at, monotonic())
            pause = self.rules.pause(attempt, True, failure, monotonic() - failed_at)
            if pause is None:
                if isinstance(failure, httpx.HTTPError):
                    self._connections.check_open()
                raise error_of(failure, self.rules)
            await asyncio.sleep(pause)
            attempt += 1

    async def close(self) -> None:
        """Closes the connections."""
        await self._connections.close()
