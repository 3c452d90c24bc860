"""The link that `gradebox serve` prints: it signs its own user in to the pages, once."""

import os
from pathlib import Path

from gradebox.client import Client
from gradebox.errors import GradeboxError
from gradebox.key_file import KEY_FILE


def link(url: str, data_dir: Path) -> str | None:
    """The link; None where there are no pages, or the API key of the data folder cannot be used."""
    if os.environ.get("GRADEBOX_UI", "on") == "off":
        return None
    try:
        key = (data_dir / KEY_FILE).read_text("ascii").strip()
        with Client(url, key) as client:
            return client.sign_in_link()
    except (OSError, GradeboxError):  # the key was revoked, for one: the service is ready all the same
        return None
