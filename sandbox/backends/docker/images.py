"""The image of the sandbox in the engine: a tar of the same tree that bubblewrap mounts, so no registry is needed."""

import logging
import tarfile
import tempfile
from datetime import UTC, datetime, timedelta
from typing import IO, Any

from docker import APIClient
from docker.errors import APIError, ImageNotFound

from sandbox import image
from sandbox.backends.docker.leftovers import LABEL

REPOSITORY = "gradebox-sandbox"
_GUEST = str(image.GUEST).lstrip("/")
_KEPT = timedelta(days=1)  # other versions may be in use by other services of this engine

_log = logging.getLogger(__name__)


def name_of(built: image.Image) -> str:
    """The name of the image, made from the hashes of its two folders."""
    return f"{REPOSITORY}:{'-'.join(folder.name.partition('-')[2] for folder in (built.root, built.guest))}"


def ensure(client: APIClient, built: image.Image) -> str:
    """Returns the name of the image of this interpreter and this guest; imports it if the engine does not have it."""
    name = name_of(built)
    try:
        client.inspect_image(name)  # type: ignore[no-untyped-call]  # no stub
    except ImageNotFound:
        _import(client, built, name.partition(":")[2])
        _remove_old(client, name)
    return name


def _import(client: APIClient, built: image.Image, tag: str) -> None:
    with tempfile.TemporaryFile() as file:
        _pack(built, file)
        file.seek(0)
        client.import_image_from_data(file, REPOSITORY, tag, changes=[f"LABEL {LABEL}=1"])


def _pack(built: image.Image, file: IO[bytes]) -> None:
    with tarfile.open(fileobj=file, mode="w") as tar:
        for folder in built.root.iterdir():
            tar.add(folder, folder.name, filter=_roots)
        for path in built.guest.iterdir():  # the folder itself is in the tree already, as a mount point
            tar.add(path, f"{_GUEST}/{path.name}", filter=_roots)


def _roots(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _remove_old(client: APIClient, current: str) -> None:
    """Removes the images that earlier versions imported. The engine keeps an image that a container runs from."""
    named = client.images(REPOSITORY, filters={"label": f"{LABEL}=1"})
    # Processes that import at the same time, such as API and worker, leave all but the last image without a name.
    unnamed = client.images(filters={"label": f"{LABEL}=1", "dangling": True})
    old = [(name, found) for found in named for name in found.get("RepoTags") or []]
    old += [(found["Id"], found) for found in unnamed]
    for name, found in old:
        if name != current and _age(found) > _KEPT:
            try:
                client.remove_image(name)
            except APIError as error:
                _log.info("the old image %s cannot be removed: %s", name, error.explanation)


def _age(found: dict[str, Any]) -> timedelta:
    return datetime.now(UTC) - datetime.fromtimestamp(found["Created"], UTC)
