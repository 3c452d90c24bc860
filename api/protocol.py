"""HTTP, with a bound on what comes before the body: a request line and headers without end would fill the memory."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol over httptools, which itself takes heads of any length."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_open = False
        self._head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Counts bytes for as long as the head is not over."""
        super().data_received(data)
        if self._head_open:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self.send_400_response(f"the headers are longer than {HEAD_BYTES} bytes")

    def on_message_begin(self) -> None:
        """A new request."""
        super().on_message_begin()
        self._head_open, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Its headers are over."""
        self._head_open = False
        super().on_headers_complete()
