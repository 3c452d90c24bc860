"""The embedded Redis: an append-only file in the data folder, and a Unix socket that only this user can open."""

import os
import shutil
import socket
from pathlib import Path
from urllib.parse import quote

from gradebox.errors import CannotServe
from gradebox.service.data_folder import DataFolder
from gradebox.service.process import ServiceProcess

STOP_S = 20.0  # Redis writes pending data before it exits


def redis_process(folder: DataFolder) -> ServiceProcess:
    """A Redis for this folder, which ends with this process. Raises CannotServe if Redis is not installed."""
    server = shutil.which("redis-server")
    if server is None:
        raise CannotServe(
            "redis-server is not installed: install it (apt-get install redis-server), "
            "or name a Redis that runs with --redis-url"
        )
    setpriv = shutil.which("setpriv")
    die_with_us = [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else []
    command = [*die_with_us, server, *_options(folder)]
    return ServiceProcess("redis", command, dict(os.environ), folder.log("redis"), STOP_S, pass_fds=(folder.lock,))


def redis_url(folder: DataFolder) -> str:
    """The URL of the Redis for the other processes."""
    return f"unix://{quote(str(_socket(folder)))}"


def redis_answers(folder: DataFolder) -> bool:
    """Whether Redis has read its append-only file and accepts commands."""
    return _ping(folder).startswith(b"+PONG")


def redis_is_occupied(folder: DataFolder) -> bool:
    """Whether Redis is reading a large append-only file, or migrating much old data to the current format."""
    return _ping(folder).startswith((b"-LOADING", b"-BUSY"))


def _ping(folder: DataFolder) -> bytes:
    """The answer of Redis to PING; empty if there is none."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(_socket(folder)))
            connection.sendall(b"PING\r\n")
            return connection.recv(64)
        except OSError:
            return b""


def _options(folder: DataFolder) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": str(_socket(folder)),
        "unixsocketperm": "700",
        "dir": str(folder.redis),
        "save": "",
        "appendonly": "yes",
        "appendfsync": "always",  # answered commands are on disk; a batch needs a few writes a chunk, of 0.2 ms each
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    return [part for name, value in options.items() for part in (f"--{name}", value)]


def _socket(folder: DataFolder) -> Path:
    return folder.sockets / "redis.sock"
