"""uvicorn's websocket protocol with the limits it lacks: size and duration of unfinished messages, and what is written
to a client that does not read.
"""

import select
from asyncio import TimerHandle
from asyncio.transports import BaseTransport
from collections import deque
from typing import Any

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from api.access.tenants import tenant_of
from api.http.problems import problem_bytes
from api.http.slow_readers import Reading
from api.http.tenant_memory import TenantMemory
from api.telemetry.requests import Refusals

MESSAGE_S = 120.0  # from the first byte of a message to its last
FRAMES = 10_000  # parsing them takes 0.3 s
STOPS = "stops"
"""A member of the scope's state, there once the service stops."""
_PIECE_BYTES = 32 * 1024
_SHARE = 4  # messages of a tenant that are not processed yet may take 1/_SHARE of what others leave
_WAIT_S = 0.1


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """One websocket.

    Attributes:
        memory: counts received bytes until the application takes them.
        refusals: counts websockets that were refused without an identified API key.
    """

    memory: TenantMemory
    refusals: Refusals

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held, self._tenant = 0, ""
        self._part = 0  # bytes of an incomplete message
        self._frames = 0  # that completed no message for the application, since the last one that did or our last ping
        self._sizes: deque[int] = deque()  # of messages that the application has not taken yet
        self._unfinished: TimerHandle | None = None
        self._waiting: TimerHandle | None = None  # until memory is free
        self._reading: Reading

    def connection_made(self, transport: BaseTransport) -> None:
        """Starts the websocket of a handshake request."""
        super().connection_made(transport)
        self._reading = Reading(self.loop, self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Releases what the connection held."""
        super().connection_lost(exc)
        self._reading.stop()
        self._await_end(False)
        if self._waiting is not None:
            self._waiting.cancel()
        self.memory.count(-self._held, self._tenant)

    def data_received(self, data: bytes) -> None:
        """Feeds the parser, and counts the bytes of incomplete messages and the frames that complete none."""
        for start in range(0, len(data), _PIECE_BYTES):
            super().data_received(data[start : start + _PIECE_BYTES])
            if self._frames > FRAMES:
                reason = f"more than {FRAMES} frames came without a message: send larger ones"
                self._end(CloseCode.POLICY_VIOLATION, reason)
                self.transport.close()  # also if a close frame was sent before
            if self.transport.is_closing():
                return
        self._part = len(self.conn.reader.buffer) + sum(map(len, self.frames))  # one of the two is empty
        self._await_end(self._part > 0 or bool(self.frames))
        self._count()
        if self._is_short:
            self.transport.pause_reading()
            self._waiting = self.loop.call_later(_WAIT_S, self._recheck_memory)

    def handle_cont(self, event: Frame) -> None:
        """Joins the fragments of a message on arrival, because a separate fragment costs more than its bytes."""
        self._frames += 1
        joined: Any = self.frames[0]
        if not isinstance(joined, bytearray):
            joined = bytearray(joined)
        joined += event.data
        self.frames = [joined]
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        """Queues a complete message, and stops reading until it is taken."""
        data, self.frames = b"".join(self.frames), []
        if self.close_sent:
            self._frames += 1
            return  # what follows is only read to find the client's close frame
        self._frames = 0
        if self.curr_msg_data_type == "text":
            try:
                text = data.decode()
            except UnicodeDecodeError:  # uvicorn would log a traceback
                self._end(CloseCode.INVALID_DATA, "a text message is not UTF-8: send it as UTF-8")
                return
            self.queue.put_nowait({"type": "websocket.receive", "text": text})
        else:
            self.queue.put_nowait({"type": "websocket.receive", "bytes": data})
        self._sizes.append(len(data))
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    async def receive(self) -> ASGIReceiveEvent:
        """Returns the next message. Resumes reading if it was the last in the queue, unless the client has to read
        first.
        """
        message = await self.queue.get()
        if message["type"] == "websocket.receive":
            self._sizes.popleft()
            self._count()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self._read_on()
        return message

    async def send(self, message: ASGISendEvent) -> None:
        """Sends a message. On "try again later" and "service restart", closes without waiting for the client's close
        frame: another connection takes this one's place, or the service stops. Raises ClientDisconnected if the
        connection is closing.
        """
        await self.writable.wait()
        if self.transport.is_closing():
            raise ClientDisconnected
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # a refusal is an answer too
            if "key" not in self.scope["state"]:
                self.refusals.note(self.initial_response[0])
        now = (CloseCode.TRY_AGAIN_LATER, CloseCode.SERVICE_RESTART)
        if message["type"] == "websocket.close" and message.get("code") in now:
            self.transport.close()

    def handle_parser_exception(self) -> None:
        """Handles input that is not a frame. Before the handshake is answered, no close frame can report it."""
        if self.conn.close_sent is not None:
            super().handle_parser_exception()
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": CloseCode.ABNORMAL_CLOSURE})
        self.transport.close()

    def send_500_response(self) -> None:
        """Answers a handshake that the application ended without an answer, which is logged."""
        self._refuse(500, "internal", "the service has an internal error: report it")

    def shutdown(self) -> None:
        """Lets the application answer and close because the service stops."""
        self._refuse(503, "unavailable", "the service is stopping: connect again in a moment")
        if self.transport.is_closing():
            self.stop_keepalive()  # nothing more can be sent
        elif self.close_sent:
            super().shutdown()
        else:
            self.scope["state"][STOPS] = True
            self.queue.put_nowait({"type": "websocket.disconnect", "code": CloseCode.SERVICE_RESTART})

    def pause_writing(self) -> None:
        """Stops reading while the client is slow to read: its messages would cause more answers."""
        super().pause_writing()
        self._reading.watch()
        if not self.read_paused and not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Resumes reading from a client that has caught up."""
        super().resume_writing()
        self._reading.stop()
        self._read_on()

    def handle_ping(self) -> None:
        """Counts a ping frame; `websockets` has already queued the pong, which is sent here."""
        self._frames += 1
        super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        """Counts a pong frame."""
        self._frames += 1
        super().handle_pong(event)

    def send_keepalive_ping(self) -> None:
        """Sends a ping, every 20 s, to check that the client is alive."""
        self._frames = 0
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        """Handles a missing pong. It only counts against the client if we are reading."""
        if not self._may_read:
            self.pong_timer = self.loop.call_later(self.ping_timeout or MESSAGE_S, self.keepalive_timeout)
        else:
            super().keepalive_timeout()

    @property
    def _may_read(self) -> bool:
        return not self.read_paused and self.writable.is_set() and self._waiting is None

    def _read_on(self) -> None:
        if self._may_read and not self.transport.is_closing():
            self.transport.resume_reading()

    def _recheck_memory(self) -> None:
        self._waiting = self.loop.call_later(_WAIT_S, self._recheck_memory) if self._is_short else None
        if self._has_disconnected():
            self.transport.abort()
        self._read_on()

    def _has_disconnected(self) -> bool:
        """Whether the client has disconnected. A transport that does not read does not detect it.

        TCP announces an ordinary close only after all data before it, for which the kernel may have no room while we
        do not read. Such a websocket ends after `MESSAGE_S`.
        """
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
        return bool(poll.poll(0))

    @property
    def _is_short(self) -> bool:
        """Whether memory is short: then the rest of a message has to wait."""
        return self._held > 0 and not self.memory.fits(0, self._tenant, _SHARE)

    def _count(self) -> None:
        """Counts what was received and not taken yet."""
        if self.disconnected:
            return
        self.memory.count(-self._held, self._tenant)  # the tenant may have been unknown at the last count
        self._tenant = tenant_of(self.scope) if self.handshake_initiated else ""
        self._held = self._part + sum(self._sizes)
        self.memory.count(self._held, self._tenant)

    def _await_end(self, is_unfinished: bool) -> None:
        if is_unfinished and self._unfinished is None:
            self._unfinished = self.loop.call_later(MESSAGE_S, self._too_late)
        elif not is_unfinished and self._unfinished is not None:
            self._unfinished.cancel()
            self._unfinished = None

    def _too_late(self) -> None:
        self._unfinished = None
        self._end(CloseCode.POLICY_VIOLATION, f"a message was not complete within {MESSAGE_S:g} s: send it faster")

    def _refuse(self, status: int, name: str, detail: str) -> None:
        """Answers a handshake that is not answered yet, and closes."""
        if self.handshake_complete or self.initial_response is not None or self.transport.is_closing():
            return
        self.handshake_complete = True
        self.transport.write(problem_bytes(status, name, detail))
        self.transport.close()

    def _end(self, code: int, reason: str) -> None:
        """Sends a close frame with the reason, and closes."""
        if self.close_sent or self.transport.is_closing():
            return
        self.conn.fail(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.close()
        self._reading.watch()
