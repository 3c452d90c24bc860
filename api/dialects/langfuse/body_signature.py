"""Signatures of bodies, as Langfuse signs its webhooks: `x-langfuse-signature: t={unix seconds},v1={hex}`.

The hex is HMAC-SHA256 under the secret, as text, of `{t}.` and the body. That requests to an external executor are
signed in this way is not known: see `ApiSettings.langfuse_external`.
"""

import hmac
import re

CLOCK_S = 300  # that a signature may be old, or of the future
_HEADER = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})")


def is_signed(header: str, body: bytes, secret: str, now: float) -> bool:
    """Whether the header is a signature of this body that is not older than some minutes."""
    found = _HEADER.fullmatch(header.strip())
    if found is None or abs(now - int(found[1])) > CLOCK_S:
        return False
    expected = hmac.digest(secret.encode(), b"%b.%b" % (found[1].encode(), body), "sha256").hex()
    return hmac.compare_digest(expected, found[2])
