"""The link that `gradebox serve` prints: it signs the service's user in to the pages, once."""

import http.client
import json
import os
from pathlib import Path
from urllib.parse import urlsplit

from gradebox.key_file import KEY_FILE

_TIMEOUT_S = 2.0


def link(url: str, data_dir: Path) -> str | None:
    """The link that signs a browser in. None if the pages are off or work only below a proxy's path, or the API key in
    the data folder is not valid.

    The key may have been revoked. The request is not retried, so that Ctrl-C does not have to wait.
    """
    if os.environ.get("GRADEBOX_UI", "on") == "off" or os.environ.get("GRADEBOX_ROOT_PATH"):
        return None
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT_S)
    try:
        key = (data_dir / KEY_FILE).read_text("ascii").strip()
        connection.request("POST", "/v1/me/sign-in", headers={"Authorization": f"Bearer {key}", "Content-Length": "0"})
        return str(url + json.load(connection.getresponse())["path"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()
