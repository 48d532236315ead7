"""Tokens as a company's own module would give them: unsecured ones, which the tests' brokers take."""

from __future__ import annotations

import base64
import json
import time

LIFETIME_SECONDS = 600


def unsecured(subject: str) -> tuple[str, float]:
    """Return a token for a subject, and when it ends."""
    now = int(time.time())
    claims = {"sub": subject, "iat": now, "exp": now + LIFETIME_SECONDS}
    parts = [base64.urlsafe_b64encode(json.dumps(it).encode()) for it in ({"alg": "none"}, claims)]
    return ".".join(part.rstrip(b"=").decode() for part in parts) + ".", claims["exp"]
