"""The HTTP server, as the API needs it."""

import logging
from math import ceil

import uvicorn

from api.access.pacing import Paced
from api.app import create_app
from api.http.limits import BoundedProtocol
from api.http.websocket import BoundedWebSocket
from api.services import Services

KEEP_ALIVE_S = 75  # longer than the minute for which load balancers keep a connection
_UNTOLD = ('%s - "WebSocket', "Invalid HTTP request received.", "connection open", "connection rejected")
LINE_FRAME_BYTES = 64  # that a message may be longer as a line


def server(services: Services, host: str, port: int) -> uvicorn.Server:
    """A server that does not run yet. It logs no paths: tenants choose parts of them."""
    logging.getLogger("uvicorn.error").addFilter(_is_told)

    class Protocol(BoundedProtocol):
        most = services.settings.connections
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


def _is_told(record: logging.LogRecord) -> bool:
    """Not what names paths, nor what is a line for each connection that a stranger makes: `Refusals` sums those up."""
    return not str(record.msg).startswith(_UNTOLD)
