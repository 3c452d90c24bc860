"""A server that answers with these bytes, whatever is asked."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socket import SHUT_WR, create_server, socket
from threading import Thread


@contextmanager
def answering(parts: Callable[[], Iterable[bytes]], heard: list[bytes] | None = None) -> Iterator[str]:
    """The URL of a server that sends these parts to everybody, until nobody reads them. Adds requests to `heard`."""

    def answer(connection: socket) -> None:
        with connection:
            request = connection.recv(1 << 16)
            if heard is not None:
                heard.append(request)
            try:
                for part in parts():
                    connection.sendall(part)
                connection.shutdown(SHUT_WR)
                while connection.recv(1 << 16):  # with a rest of the request unread, closing would reset the connection
                    pass
            except OSError:  # the client has closed
                pass

    def accept() -> None:
        try:
            while True:
                Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()
        except OSError:  # closed below
            pass

    with create_server(("127.0.0.1", 0)) as listening:
        Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
