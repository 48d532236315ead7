"""Prepare TLS from PEM texts, and fetch bearer tokens for OAUTHBEARER logins (KIP-255, KIP-768)."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from twinlog.config.file.providers import reveal
from twinlog.config.security.connection import SaslSettings, TlsSettings
from twinlog.errors import ClusterRefused, ClusterUnreachable, ConfigError

_TIMEOUT_SECONDS = 10
_UNSECURED_LIFETIME_SECONDS = 3600
MAX_ANSWER_BYTES = 1 << 20
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_JSON_NAMES = {
    list: "list",
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
}

_LATER = frozenset({408, 429})
"""HTTP statuses that ask the client to come again, besides server errors (5xx)."""


def token(sasl: SaslSettings) -> str:
    """Fetch a token with client credentials; if no endpoint is configured, make an unsecured token.

    Raises ClusterUnreachable if the token endpoint does not answer, or answers with a server error or "try again
    later".  Raises ClusterRefused if it refuses, or if its answer holds no token.
    """
    if sasl.token_endpoint is None:
        return _unsecured(sasl)
    import requests  # here: most lanes never need it

    host = urlsplit(sasl.token_endpoint).hostname  # the URL itself may hold a login

    form = {"grant_type": "client_credentials"}
    if sasl.scope:
        form["scope"] = sasl.scope
    password = reveal(sasl.password) if sasl.password is not None else ""
    try:
        # A redirect may lead anywhere, also to plain http: it is treated as any other answer that holds no token.
        with requests.post(
            sasl.token_endpoint,
            data=form,
            auth=(sasl.username, password),
            timeout=_TIMEOUT_SECONDS,
            stream=True,
            allow_redirects=False,
        ) as answer:
            status, body = answer.status_code, _beginning(answer.iter_content(1024))
    except requests.RequestException as error:
        raise ClusterUnreachable(
            f"token endpoint {host} cannot be reached: {type(error).__name__}", code="oauth"
        ) from None
    if status >= requests.codes.server_error or status in _LATER:
        raise ClusterUnreachable(f"token endpoint {host} answered {status}", code="oauth")
    if status != requests.codes.ok:
        raise ClusterRefused(
            f"token endpoint {host} answered {status}",
            hint="check the client id, the client secret and the scope",
            code="oauth",
        )
    try:
        return access_token(body)
    except ValueError as error:
        raise ClusterRefused(
            f"token endpoint {host} gave no token: {error}",
            hint="check sasl.oauthbearer.token.endpoint.url: what answers there does not speak OAuth 2",
            code="oauth",
        ) from None


def access_token(body: bytes) -> str:
    """Read the token from an endpoint's answer.  Pure.

    Raises ValueError, which says how the answer is wrong but quotes none of it: the answer may hold part of a secret.
    """
    if len(body) > MAX_ANSWER_BYTES:
        raise ValueError(f"its answer is larger than {MAX_ANSWER_BYTES:,} bytes")
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("its answer is no JSON") from None
    if not isinstance(answer, dict):
        raise ValueError(f"its answer is a JSON {_JSON_NAMES[type(answer)]}, not an object")
    if "access_token" not in answer:
        raise ValueError("its answer has no access_token")
    found = answer["access_token"]
    # RFC 6750's alphabet; any other character, above all a control character, would break the SASL exchange.
    if not isinstance(found, str) or not _TOKEN.fullmatch(found):
        raise ValueError("its access_token is no bearer token")
    return found


def _beginning(parts: Iterator[bytes]) -> bytes:
    """Read an answer, but no further than needed to see that it is too large."""
    body = b""
    for part in parts:
        body += part
        if len(body) > MAX_ANSWER_BYTES:
            break
    return body


def _unsecured(sasl: SaslSettings) -> str:
    """Build an unsigned JWT as Kafka's OAuthBearerUnsecuredLoginCallbackHandler does: for development only.

    The token is issued at a whole second: the broker compares with its own milliseconds, and refuses a token issued
    even a fraction of a second in the future.
    """
    now = int(time.time())
    claims = {"sub": sasl.username, "iat": now, "exp": now + _UNSECURED_LIFETIME_SECONDS}
    claims.update(sasl.unsecured_claims)
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(content: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def context(tls: TlsSettings) -> ssl.SSLContext:
    """Build a client context that verifies the broker's chain and, unless switched off, its host name.

    Raises ConfigError if a certificate or key cannot be used; the message shows neither key nor password.
    """
    result = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    result.check_hostname = tls.verify_hostname
    try:
        if tls.ca_pem is None:
            result.load_default_certs()
        else:
            result.load_verify_locations(cadata=tls.ca_pem)
        if tls.certificate_pem is not None and tls.key_pem is not None:
            _load_client_certificate(result, tls.certificate_pem, reveal(tls.key_pem), tls)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the TLS certificates or key cannot be used: {error}", code="tls") from None
    return result


def _load_client_certificate(context: ssl.SSLContext, certificate: str, key: str, tls: TlsSettings) -> None:
    """Load the client certificate: OpenSSL reads keys only from files, so a private temporary file is written."""
    handle, name = tempfile.mkstemp(prefix="twinlog-", suffix=".pem")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(certificate + "\n" + key)
        password = reveal(tls.key_password) if tls.key_password is not None else ""
        context.load_cert_chain(name, password=password)
    finally:
        Path(name).unlink()
