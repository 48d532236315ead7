"""Prepare TLS from PEM texts, and get bearer tokens for OAUTHBEARER logins (KIP-255, KIP-768)."""

from __future__ import annotations

import base64
import importlib
import json
import os
import re
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from twinlog.config.file.providers import reveal
from twinlog.config.security.connection import SaslSettings, TlsSettings, TokenProvider
from twinlog.errors import ClusterRefused, ClusterUnreachable, ConfigError, TwinlogError
from twinlog.jsonable import from_json

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

_KEPT: dict[SaslSettings, tuple[str, float]] = {}
"""Tokens of endpoints, each for half of its life (monotonic seconds): identity providers limit how many one gets."""

_LATER = frozenset({408, 429})
"""HTTP statuses that ask the client to come again, besides server errors (5xx)."""


@dataclass(frozen=True, slots=True)
class Bearer:
    """A bearer token, and when it ends (epoch s); the token is kept out of `repr`."""

    token: str = field(repr=False)
    expires: float


def token(sasl: SaslSettings) -> str:
    """Return the token of an OAUTHBEARER login, from wherever it comes.

    Raises ClusterUnreachable if what gives the token does not answer, or is in trouble itself.  Raises ClusterRefused
    if it refuses, or if its answer is no token, and ConfigError if it is not there.
    """
    if sasl.by_callback:
        return bearer(sasl).token
    return _unsecured(sasl) if sasl.token_endpoint is None else _from_endpoint(sasl, sasl.token_endpoint)


def bearer(sasl: SaslSettings) -> Bearer:
    """Return the token that a function or a file gives.  Raises as `token` does."""
    if sasl.token_provider is not None:
        return _from_function(sasl.token_provider)
    if sasl.token_file is not None:
        return _from_file(Path(sasl.token_file))
    raise ValueError("this login has neither a function nor a file")


def for_client(sasl: SaslSettings, _config: str) -> tuple[str, float, str, dict[str, str]]:
    """Return what confluent-kafka's `oauth_cb` asks for: token, its end (epoch s), a principal, and extensions."""
    found = bearer(sasl)
    return found.token, found.expires, "twinlog", dict(sasl.extensions)


def _from_function(provider: TokenProvider) -> Bearer:
    module, _, function = provider.name.rpartition(".")
    try:
        call = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        what = f"the token provider {provider.name} cannot be imported: {error}"
        hint = "install its package wherever twinlog and Spark's workers run"
        raise ConfigError(what, hint=hint, code="oauth") from None
    try:
        given = call(**{name: reveal(value) for name, value in provider.options})
    except TwinlogError:
        raise
    except Exception as error:  # what a function raises is not known here, and its text may hold a secret
        what = f"the token provider {provider.name} failed: {type(error).__name__}"
        raise ClusterUnreachable(what, hint="--debug shows its traceback", code="oauth") from error
    match given:
        case (str() as text, int() | float() as expires) if _TOKEN.fullmatch(text):
            return _not_expired(Bearer(text, float(expires)), f"the token provider {provider.name}")
    hint = "return the token and the time when it ends, in seconds since 1970"
    raise ClusterRefused(f"the token provider {provider.name} gave no token", hint=hint, code="oauth")


def _from_file(path: Path) -> Bearer:
    """Read a JWT, whose claim `exp` says when it ends, as Java's FileJwtRetriever does for each login."""
    where = f"the token file {path}"
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterUnreachable(f"{where} cannot be read: {type(error).__name__}", code="oauth") from None
    try:
        _, claims, _ = text.split(".")
        expires = float(from_json(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
    except (ValueError, KeyError, TypeError):
        raise ClusterRefused(f"{where} holds no JWT with an `exp`", code="oauth") from None
    if not _TOKEN.fullmatch(text):
        raise ClusterRefused(f"{where} holds no bearer token", code="oauth")
    return _not_expired(Bearer(text, expires), where)


def _not_expired(found: Bearer, where: str) -> Bearer:
    """Return a token that is still good; one that has expired may be renewed late, so the login is tried again."""
    if found.expires <= time.time():
        raise ClusterUnreachable(f"{where} gave a token that has expired", code="oauth")
    return found


def _from_endpoint(sasl: SaslSettings, endpoint: str) -> str:
    """Fetch a token with client credentials."""
    import requests  # here: most lanes never need it

    kept, until = _KEPT.get(sasl, ("", 0.0))
    if time.monotonic() < until:
        return kept
    where = f"token endpoint {urlsplit(endpoint).hostname}"  # the URL itself may hold a login
    form = {"grant_type": "client_credentials"}
    if sasl.scope:
        form["scope"] = sasl.scope
    password = reveal(sasl.password) if sasl.password is not None else ""
    try:
        # A redirect may lead anywhere, also to plain http: it is treated as any other answer that holds no token.
        with requests.post(
            endpoint,
            data=form,
            auth=(sasl.username, password),
            timeout=_TIMEOUT_SECONDS,
            stream=True,
            allow_redirects=False,
        ) as answer:
            status, body = answer.status_code, _beginning(answer.iter_content(1024))
    except requests.RequestException as error:
        raise ClusterUnreachable(f"{where} cannot be reached: {type(error).__name__}", code="oauth") from None
    if status >= requests.codes.server_error or status in _LATER:
        raise ClusterUnreachable(f"{where} answered {status}", code="oauth")
    if status != requests.codes.ok:
        hint = "check the client id, the client secret and the scope"
        raise ClusterRefused(f"{where} answered {status}", hint=hint, code="oauth")
    try:
        found = access_token(body)
    except ValueError as error:
        hint = "check sasl.oauthbearer.token.endpoint.url: what answers there does not speak OAuth 2"
        raise ClusterRefused(f"{where} gave no token: {error}", hint=hint, code="oauth") from None
    seconds = from_json(body).get("expires_in")
    if isinstance(seconds, int):
        _KEPT[sasl] = found, time.monotonic() + seconds / 2
    return found


def refused(sasl: SaslSettings) -> None:
    """Forget a token that a broker did not take."""
    _KEPT.pop(sasl, None)


def access_token(body: bytes) -> str:
    """Read the token from an endpoint's answer.  Pure.

    Raises ValueError, which says how the answer is wrong but quotes none of it: the answer may hold part of a secret.
    """
    if len(body) > MAX_ANSWER_BYTES:
        raise ValueError(f"its answer is larger than {MAX_ANSWER_BYTES:,} bytes")
    try:
        answer = from_json(body)
    except ValueError:
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


@lru_cache(maxsize=16)
def context(tls: TlsSettings) -> ssl.SSLContext:
    """Build a client context that verifies the broker's chain and, unless switched off, its host name.

    All connections of the process share it: reading the system's certificates costs more than a handshake.
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
    """Load the client certificate: OpenSSL reads keys only from files, so one is written that no disk keeps."""
    password = reveal(tls.key_password) if tls.key_password is not None else ""
    with _private_file(f"{certificate}\n{key}") as name:
        context.load_cert_chain(name, password=password)


@contextmanager
def _private_file(text: str) -> Iterator[str]:
    """Give the name of a file in memory, or, where a system has none, of a temporary file of this user alone."""
    in_memory = hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir()
    handle, name = (os.memfd_create("twinlog"), "") if in_memory else tempfile.mkstemp(prefix="twinlog-")
    with os.fdopen(handle, "w") as file:
        try:
            file.write(text)
            file.flush()
            yield name or f"/proc/self/fd/{handle}"
        finally:
            if name:
                Path(name).unlink()
