"""Bearer tokens for OAUTHBEARER logins (KIP-255, KIP-768)."""

from __future__ import annotations

import base64
import json
import time
from urllib.parse import urlsplit

from twinlog.config.connection import SaslSettings
from twinlog.config.secret import reveal
from twinlog.errors import ClusterRefused, ClusterUnreachable

_TIMEOUT_SECONDS = 10
_UNSECURED_LIFETIME_SECONDS = 3600

_LATER = frozenset({408, 429})
"""HTTP statuses that ask to come again, besides those of a server in trouble."""


def token(sasl: SaslSettings) -> str:
    """Fetch a token with client credentials, or make an unsecured one where no endpoint is configured.

    Raises ClusterUnreachable when the token endpoint does not answer, ClusterRefused when it says no.
    """
    if sasl.token_endpoint is None:
        return _unsecured(sasl)
    import requests  # here: most lanes never need it

    host = urlsplit(sasl.token_endpoint).hostname  # in the URL itself there may be a login

    form = {"grant_type": "client_credentials"}
    if sasl.scope:
        form["scope"] = sasl.scope
    password = reveal(sasl.password) if sasl.password is not None else ""
    try:
        answer = requests.post(
            sasl.token_endpoint, data=form, auth=(sasl.username, password), timeout=_TIMEOUT_SECONDS
        )
    except requests.RequestException as error:
        raise ClusterUnreachable(
            f"token endpoint {host} cannot be reached: {type(error).__name__}", code="oauth"
        ) from None
    if answer.status_code >= requests.codes.server_error or answer.status_code in _LATER:
        raise ClusterUnreachable(f"token endpoint {host} answered {answer.status_code}", code="oauth")
    if answer.status_code != requests.codes.ok:
        raise ClusterRefused(
            f"token endpoint {host} answered {answer.status_code}",
            hint="check the client id, the client secret and the scope",
            code="oauth",
        )
    try:
        return str(answer.json()["access_token"])
    except (ValueError, KeyError):
        raise ClusterRefused(
            f"token endpoint {host} answered without an access_token", code="oauth"
        ) from None


def _unsecured(sasl: SaslSettings) -> str:
    """Build an unsigned JWT as Kafka's OAuthBearerUnsecuredLoginCallbackHandler does: for development only.

    Issued at a whole second: the broker compares with its milliseconds, and refuses what is a fraction of one ahead.
    """
    now = int(time.time())
    claims = {"sub": sasl.username, "iat": now, "exp": now + _UNSECURED_LIFETIME_SECONDS}
    claims.update(sasl.unsecured_claims)
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(content: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
