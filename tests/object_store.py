"""Servers of the S3 protocol."""

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@contextmanager
def object_store() -> Iterator[str]:
    """Yields the URL of an empty bucket. Environment variables give access to this process and its children."""
    import boto3  # here, because each test process would import it to collect the tests
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    bucket = f"spool-{secrets.token_hex(4)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        boto3.client("s3").create_bucket(Bucket=bucket)
        try:
            yield f"s3://{bucket}/spool"
        finally:
            server.stop()


@contextmanager
def store_that_answers(status: int, body: bytes = b"", missing: int = 0) -> Iterator[list[str]]:
    """An object store that gives this answer to every request. Its connections break before the last `missing` bytes of
    the body. Yields the list of the requests.
    """
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # answers `Expect: 100-continue`

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline()
            if self.parse_request():
                requests.append(self.requestline)
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body) + missing))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in the base class
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "MAX_ATTEMPTS": "1"}.items():
            patch.setenv(f"AWS_{name}", value)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        try:
            yield requests
        finally:
            server.shutdown()


def problem(code: str) -> bytes:
    """The body of an object store's answer with this error code."""
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()
