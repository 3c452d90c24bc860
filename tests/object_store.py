"""A server of the S3 protocol."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

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
