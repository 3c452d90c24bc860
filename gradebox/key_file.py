"""The file `api-key` of a data folder: it holds the service's first API key, and a lost key is replaced in it."""

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

KEY_FILE = "api-key"
NEW_KEY_FILE = "api-key.new"  # the service imports it when it starts
_PREFIX = "gbx"
_SECRET_BYTES = 32
_TOKEN = re.compile(rf"{_PREFIX}_([0-9a-f]{{12}})_[A-Za-z0-9_-]{{43}}")


def new_token() -> str:
    """Generate an API key."""
    return f"{_PREFIX}_{secrets.token_hex(6)}_{secrets.token_urlsafe(_SECRET_BYTES)}"


def id_of(token: str) -> str | None:
    """The id of an API key; None if the text is not an API key."""
    match = _TOKEN.fullmatch(token)
    return match[1] if match else None


def write(path: Path, token: str) -> None:
    """Write the key to the file atomically, readable only by the owner of the folder."""
    folder = path.parent.stat()
    own = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(f"{token}\n")
            file.flush()
            os.fsync(file.fileno())
            if hasattr(os, "geteuid") and os.geteuid() == 0:  # not on Windows
                os.fchown(file.fileno(), folder.st_uid, folder.st_gid)
        own.replace(path)
    finally:
        with suppress(FileNotFoundError):
            own.unlink()


def replace(folder: Path, old: str, token: str) -> Path | None:
    """Replace the key in the folder's file if the file holds the key with the id `old`. Returns the file, or None."""
    path = folder / KEY_FILE
    try:
        there = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    if id_of(there) != old:
        return None
    write(path, token)
    return path
