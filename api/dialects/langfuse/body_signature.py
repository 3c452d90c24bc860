"""Body signatures in the form of Langfuse's webhooks: `x-langfuse-signature: t={unix seconds},v1={hex}`.

The hex is HMAC-SHA256 of `{t}.` and the body, with the secret's text as the key. It is not known whether requests to an
external executor are signed like this: see `ApiSettings.langfuse_external`.
"""

import hmac
import re

CLOCK_S = 300  # the allowed age of a signature, also into the future
_HEADER = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})")


def is_signed(header: str, body: bytes, secret: str, now: float) -> bool:
    """Whether the header is a valid signature of this body, at most CLOCK_S old."""
    found = _HEADER.fullmatch(header.strip())
    if found is None or abs(now - int(found[1])) > CLOCK_S:
        return False
    expected = hmac.digest(secret.encode(), b"%b.%b" % (found[1].encode(), body), "sha256").hex()
    return hmac.compare_digest(expected, found[2])
