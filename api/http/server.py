"""The configured HTTP server of the API."""

import logging
from math import ceil
from typing import ClassVar

import uvicorn

from api.access.pacing import Paced
from api.app import create_app
from api.http.bounded_protocol import BoundedProtocol
from api.http.websocket import BoundedWebSocket
from api.services import Services

KEEP_ALIVE_S = 75  # longer than the 60 s for which load balancers keep a connection
_NOT_LOGGED = ('%s - "WebSocket', "Invalid HTTP request received.", "connection open", "connection rejected")
LINE_FRAME_BYTES = 64  # the overhead of a message when it is sent as a line


def server(services: Services, host: str, port: int) -> uvicorn.Server:
    """Returns a server that is not running yet. It logs no paths, because tenants choose parts of them."""
    logging.getLogger("uvicorn.error").addFilter(_is_logged)

    class Protocol(BoundedProtocol):
        most = services.settings.connections
        waiting: ClassVar[dict[BoundedProtocol, None]] = {}
        refusals = services.requests.refusals
        unread = services.large_answers.unread

    class WebSocket(BoundedWebSocket):
        memory = services.memory
        refusals = services.requests.refusals

    config = uvicorn.Config(
        Paced(create_app(services), services),
        host=host,
        port=port,
        loop="uvloop",
        http=Protocol,
        ws=WebSocket,
        ws_max_size=services.line_bytes - LINE_FRAME_BYTES,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(services.settings.proxies),
        forwarded_allow_ips=services.settings.proxies,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=ceil(services.settings.stop_s),
    )
    return uvicorn.Server(config)


def _is_logged(record: logging.LogRecord) -> bool:
    """Filters out records that contain paths, and those logged for each connection of a stranger, which `Refusals` sums
    up.
    """
    return not str(record.msg).startswith(_NOT_LOGGED)
