"""Sends calls and reads their answers, with retries."""

import asyncio
from collections.abc import AsyncIterator
from time import monotonic
from typing import TypeVar

import httpx

from gradebox.client.calls.call import Call, is_answer
from gradebox.client.connections import AsyncClientConnections
from gradebox.client.line_readers import StreamReader
from gradebox.client.outages import Outages, was_at_work
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
        ends, outages = monotonic() + call.within_s, Outages()
        while True:
            started = monotonic()
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
            except BaseException as error:
                if error is not resend.failed:
                    self._connections.renew_after(error)
                raise
            now = monotonic()
            worked_until = now if was_at_work(failure) else resend.taken_at
            attempt, lasts_s = outages.failed(now, worked_until - started)
            left = ends - now
            pause = self.rules.pause(attempt, call.idempotent and resend.possible, failure, lasts_s)
            if pause is None or left <= 0:
                break
            await asyncio.sleep(min(pause, left))
            resend.rewind()
        if isinstance(failure, httpx.HTTPError):
            self._connections.check_open()  # what closing broke is no fault of the service
        return settle(call, failure, self.rules, outages.tries)

    async def lines(self, path: str, reader: StreamReader[T]) -> AsyncIterator[T]:
        """Yields the items that `reader` reads from a stream, and resumes the stream if the connection breaks."""
        outages = Outages()
        while True:
            failure: httpx.Response | httpx.HTTPError
            try:
                async with self._connections.http.stream("GET", path, params=reader.params) as response:
                    self.rules.reached = True
                    if is_answer(response):
                        async for block in response.aiter_bytes():
                            for each in reader.feed(block):
                                if outages.tries:
                                    outages = Outages()
                                yield each
                        for each in reader.end():
                            yield each
                        return
                    await response.aread()
                    failure = response
            except httpx.HTTPError as error:
                failure = error
            except BaseException as error:
                self._connections.renew_after(error)
                raise
            attempt, lasts_s = outages.failed(monotonic())
            pause = self.rules.pause(attempt, True, failure, lasts_s)
            if pause is None:
                if isinstance(failure, httpx.HTTPError):
                    self._connections.check_open()
                raise error_of(failure, self.rules)
            await asyncio.sleep(pause)

    async def close(self) -> None:
        """Closes the connections."""
        await self._connections.close()
