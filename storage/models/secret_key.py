"""Encryption of secrets that the service must read again, such as API keys of models, with a key from a file.

Redis holds the encrypted secrets, and the key file is not in Redis, so access to only one of them reveals no secret.
"""

import base64
import hashlib
import secrets
from pathlib import Path

from storage.errors import StorageError
from storage.spool.disk import create_private

_KEY_BYTES = 32
_NONCE_BYTES = 12


class SecretKeyError(StorageError):
    """The key file is unusable, or is not the one that a secret was encrypted with."""


class SecretKey:
    """The key in the file. If the file does not exist, the first call of `seal` in any process creates it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key: bytes | None = None

    def seal(self, secret: str, context: str) -> str:
        """Encrypts a secret. Only `open` with the same context can decrypt it. Raises SecretKeyError."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # loaded at the first use

        key, nonce = self._read(make=True), secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + AESGCM(key).encrypt(nonce, secret.encode(), context.encode())
        return f"{_name(key)}:{base64.b64encode(sealed).decode()}"

    def open(self, sealed: str, context: str) -> str:
        """Decrypts a secret. Raises SecretKeyError if the key file or the context is not the one it was sealed with."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key = self._read(make=False)
        name, _, text = sealed.partition(":")
        if name != _name(key):
            raise SecretKeyError(
                f"the key file {self._path} is not the one that this secret was encrypted with: restore that file "
                "(GRADEBOX_SECRET_KEY_FILE), the same for every process, or give the secret again"
            )
        data = base64.b64decode(text)
        try:
            return AESGCM(key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], context.encode()).decode()
        except InvalidTag as error:
            raise SecretKeyError("what is kept of this secret was changed: give the secret again") from error

    def _read(self, *, make: bool) -> bytes:
        if self._key is None:
            try:
                if make and not self._path.exists():
                    create_private(self._path, base64.urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES)) + b"\n")
                self._key = _decoded(self._path)
            except OSError as error:
                raise SecretKeyError(
                    f"the key file {self._path} cannot be read or made ({error.strerror}): let the service's user read "
                    "it, or name another with GRADEBOX_SECRET_KEY_FILE"
                ) from error
        return self._key


def _decoded(path: Path) -> bytes:
    with path.open("rb") as file:
        text = file.read(1000)
    try:
        key = base64.urlsafe_b64decode(text.strip())
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise SecretKeyError(f"the file {path} holds no key: a key file has {_KEY_BYTES} random bytes in base64")
    return key


def _name(key: bytes) -> str:
    """Identifies a key without revealing it."""
    return hashlib.sha256(b"gradebox secret key " + key).hexdigest()[:12]
