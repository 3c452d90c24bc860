"""uvicorn's HTTP protocol with the limits it lacks: header and trailer size, header and body timeouts, how long answers
wait to be read, and the number of connections.
"""

import socket
import sys
from asyncio import TimerHandle, Transport
from itertools import chain
from typing import Any, ClassVar

from httptools import HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from api.access.strangers import WAITS
from api.access.tenants import tenant_of
from api.http.problems import problem_bytes
from api.http.slow_readers import Reading
from api.http.tenant_memory import TenantMemory
from api.telemetry.requests import Refusals

HEAD_BYTES = 64 * 1024
HEAD_S = 20.0
LINGER_S = 10.0  # for the rest of a request that is already answered
LINGER_BYTES = 64 * 1024 * 1024  # the most bytes of that rest
_REFUSED_BYTES = 1024 * 1024  # the same limit for input that is not HTTP or has too long a head
PIPELINED = 16
_WRITTEN_BYTES = 64 * 1024
_UNSENT_BYTES = 128 * 1024
_OFFER = (b"upgrade", b"connection", b"http2-settings")


class BoundedProtocol(HttpToolsProtocol):
    """One connection.

    Attributes:
        most: the limit of connections at once. One more replaces the connection that has waited longest for its next
            request, or else one without an API key that does not read its answers or pipelines requests.
        waiting: the connections without a request in progress, in the order in which they began to wait.
        refusals: counts requests that are refused before they reach the application.
        unread: counts bytes written and not read yet, by the tenant that requested them.
    """

    most = 1000
    waiting: ClassVar[dict["BoundedProtocol", None]]
    refusals: Refusals
    unread: TenantMemory

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unproductive_bytes = 0  # bytes received since the last complete head or body part
        self._has_progress = False
        self._body_open = False
        self._parts: list[bytes] = []  # of a body, received and not handed on yet
        self._stays = False  # whether the connection stays open if the chunked body ends before its answer begins
        self._declined_at: int | None = None
        self._timer: TimerHandle | None = None  # until the next head or the rest of a body is due
        self._reading: Reading
        self._running: RequestResponseCycle | None = None  # `cycle` may be a later, pipelined request
        self._is_lingering = False
        self._discarded = 0  # bytes of a request that is already answered
        self._unread, self._reader = 0, ""  # the bytes counted in `unread`, and the tenant they are counted for
        self.written = 0  # bytes of the last part of an answer

    @property
    def idle(self) -> bool:
        """Whether no request is being processed."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def _is_declined(self) -> bool:
        """Whether the head offers a protocol other than websockets; it is then parsed again without the offer."""
        return self.parser.should_upgrade() and not self._should_upgrade()

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Makes room for the connection, or refuses it."""
        super().connection_made(transport)
        _bound_unsent(transport)
        self._reading = Reading(self.loop, transport)
        self._await(HEAD_S)
        self.waiting[self] = None
        if len(self.connections) > self.most and not self._make_room():
            self._refuse(503, "unavailable", f"there are {self.most} connections already: try again in a moment")

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels the connection's timers."""
        super().connection_lost(exc)
        self.waiting.pop(self, None)
        if self._running is not None:  # uvicorn notifies only the last request, which may be a pipelined one
            self._running.disconnected = True
            self._running.message_event.set()
        self._reading.stop()
        self._count_unread(0)
        for timer in (self._timer, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Feeds the parser, and limits the bytes that complete nothing: those of heads and of trailers."""
        if self._is_lingering:
            self._discard(len(data))
            return
        self._has_progress = False
        super().data_received(data)
        read = data
        while self._declined_at is not None:
            read = self._without_offer(read[self._declined_at :])
            super().data_received(read)
        self._hand_on()
        self._unproductive_bytes = 0 if self._has_progress else self._unproductive_bytes + len(data)
        if self._unproductive_bytes > HEAD_BYTES:
            self._refuse(431, "too-large", f"the headers are longer than {HEAD_BYTES} bytes: send less")
        elif self.idle and self._timer is None and self in self.connections:  # it may be a websocket by now
            self._await(HEAD_S)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keeps headers, and ignores trailers."""
        if not self._body_open:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Starts the request, unless its head offers another protocol."""
        self._has_progress = True
        if self.parser.get_method() == b"CONNECT":
            raise ValueError("this is not a proxy")  # stops the parser, and the request is refused
        if self._is_declined:
            return
        self._body_open = True
        self._discarded = 0
        self._await(None)
        self.waiting.pop(self, None)
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:  # a websocket's head makes no cycle
            self.cycle.transport = _Closing(self, self.transport)  # type: ignore[assignment]  # all that a cycle uses
            self._stays = self.cycle.keep_alive and any(name == b"transfer-encoding" for name, _ in self.headers)
            if self._stays:  # the rest of its chunks, once answered, is not worth parsing
                self.cycle.keep_alive = False
        if len(self.pipeline) > PIPELINED:
            raise ValueError("requests are sent faster than they are answered")  # stops the parser: a refusal

    def _unsupported_upgrade_warning(self) -> None:
        """Notes where the head ends in the input, when it offers another protocol. The parser stops there."""
        (self._declined_at,) = sys.exception().args  # type: ignore[union-attr]  # HttpParserUpgrade is being handled

    def _without_offer(self, rest: bytes) -> bytes:
        """Returns the request without its offer, which RFC 9110 (7.8) allows a server to ignore, for a new parser. The
        old parser would treat the body as the other protocol, and what follows it as requests.
        """
        self._declined_at = None
        kept = [(name, value) for name, value in self.headers if name not in _OFFER]
        connection = b",".join(value for name, value in self.headers if name == b"connection").lower()
        if b"close" in [token.strip() for token in connection.split(b",")]:
            kept.append((b"connection", b"close"))
        head = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        head += [b"%s: %s" % header for header in kept]
        self.parser = HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        return b"\r\n".join([*head, b"", rest])

    def handle_websocket_upgrade(self) -> None:
        """Hands the connection to a websocket. Refuses a head that `websockets` cannot parse, which would get no
        answer.
        """
        if not all(text.isascii() for text in (self.url, *chain.from_iterable(self.headers))):
            self._refuse(400, "invalid-request", "this is not a websocket handshake: send only ASCII in its headers")
            return
        super().handle_websocket_upgrade()
        if not getattr(self.transport.get_protocol(), "handshake_initiated", True):
            self.transport.write(
                problem_bytes(400, "invalid-request", "this is not a websocket handshake: check its headers")
            )
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        """Keeps a part of a body until all parts that came together are handed on. A chunk may be one byte, and would
        cost more than hundreds.
        """
        self._parts.append(body)

    def _hand_on(self) -> None:
        """Hands on what came of a body, also of a request that is already answered."""
        if not self._parts:
            return
        body, self._parts = b"".join(self._parts), []
        self._has_progress = True
        super().on_body(body)
        if self.idle:
            self._discard(len(body))

    def on_message_complete(self) -> None:
        """Handles the end of a request."""
        if self._is_declined:
            return
        self._hand_on()
        if self._stays and not self.cycle.response_started:
            self.cycle.keep_alive = True
        self._has_progress, self._body_open = True, False
        if self.idle:
            self._await(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Handles the end of an answer. The rest of its request is read and discarded for a while."""
        if self.idle:
            self.waiting[self] = None
        if self._is_lingering:
            self.server_state.total_requests += 1
            return
        super().on_response_complete()
        if self.transport.is_closing():
            self._reading.watch()
        elif self._body_open and not self.pipeline:
            self._await(LINGER_S)

    def shutdown(self) -> None:
        """Ends the connection, after its answer if there is one to come."""
        self._stays = False
        super().shutdown()

    def timeout_keep_alive_handler(self) -> None:
        """Closes a connection on which no next request came."""
        self._close()

    def pause_writing(self) -> None:
        """Watches a client that does not read fast enough."""
        super().pause_writing()
        self._reading.watch()
        self._reader = "" if self._running is None else tenant_of(self._running.scope)
        # The part is held twice: here, and by the application until it may go on.
        self._count_unread(max(self.transport.get_write_buffer_size(), 2 * self.written))

    def resume_writing(self) -> None:
        """Stops watching a client that has caught up."""
        super().resume_writing()
        self._count_unread(0)
        if not self.transport.is_closing():
            self._reading.stop()

    def send_400_response(self, msg: str) -> None:
        """Refuses input that is not HTTP."""
        self._refuse(400, "invalid-request", f"{msg.rstrip('.')}: check what sends it")

    def close_when_answered(self) -> None:
        """Closes the connection after an answer. A client that is still sending would lose the answer on a close, so
        its request is read and discarded for a while.
        """
        if self._body_open and self.idle:
            self._linger(LINGER_BYTES)
        else:
            self.transport.close()

    def _refuse(self, status: int, name: str, detail: str) -> None:
        """Answers with a problem, unless an answer is in progress, and closes."""
        if self._body_open and self.cycle is self._running and not self.cycle.response_started:
            # The rest of the body will not come. The application sees a disconnect, and its answer is dropped.
            self.cycle.disconnected = self.cycle.response_complete = True
            self.cycle.message_event.set()
        if not self.idle or self.transport.is_closing() or self._is_lingering:
            self._close()
            return
        self.refusals.note(status)
        self.transport.write(problem_bytes(status, name, detail))
        if len(self.connections) > self.most:
            self._close()
        else:
            self._linger(_REFUSED_BYTES)

    def _linger(self, most: int) -> None:
        if self.transport.is_closing():
            return
        self._is_lingering = True
        self._discarded = LINGER_BYTES - most
        self.transport.write_eof()
        self.flow.resume_reading()
        self._await(LINGER_S)
        self._reading.watch()

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > LINGER_BYTES:
            self._close()

    def _close(self) -> None:
        self.transport.close()
        self._reading.watch()

    def _count_unread(self, size: int) -> None:
        """Counts what is written as a whole until it is drained: nothing more is written meanwhile."""
        self.unread.count(size - self._unread, self._reader)
        self._unread = size

    def _await(self, seconds: float | None) -> None:
        """Sets the time in which the client is to send what is due; None if nothing is due."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        self._timer = None
        if self.idle:
            self._close()
        else:  # a pipelined request: it is read in its turn
            self._await(HEAD_S)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    @property
    def _gives_way(self) -> bool:
        """Whether a client without an API key leaves answers unread, has pipelined requests, or waits for its turn.
        Clients with a key are limited by the tenant.
        """
        state = {} if self._running is None else self._running.scope["state"]
        return "key" not in state and (self.flow.write_paused or len(self.pipeline) > 0 or WAITS in state)

    def _make_room(self) -> bool:
        """Aborts the connection that has waited longest for a request, else one that gives way. False if none."""
        busy = (one for one in self.connections if isinstance(one, BoundedProtocol) and one._gives_way)
        found = next((one for one in chain(self.waiting, busy) if one is not self), None)
        if found is not None:
            self.waiting.pop(found, None)
            found.transport.abort()
        return found is not None


class _Closing:
    """The transport of one answer. uvicorn closes the connection through it."""

    def __init__(self, protocol: BoundedProtocol, connection: Transport) -> None:
        self._protocol = protocol
        self._connection = connection
        self.is_closing = connection.is_closing
        self.close = protocol.close_when_answered

    def write(self, data: bytes) -> None:
        """Drops what is written after the connection is closed. Writes in pieces: one is kept whole until its last byte
        is sent.
        """
        self._protocol.written = len(data)
        for start in range(0, len(data), _WRITTEN_BYTES):
            if not self._connection.is_closing():
                self._connection.write(data[start : start + _WRITTEN_BYTES])


def _bound_unsent(transport: Transport) -> None:
    """Bounds what the kernel holds for a client that does not read: it takes up to 4 MiB otherwise. What it does not
    take is counted here. Whatever is on its way to the client is not bounded by this.
    """
    connection = transport.get_extra_info("socket")
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
