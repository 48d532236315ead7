"""Turn mechanism and JAAS entry of a Java client into one SaslSettings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from twinlog.config.file.providers import Secret, quoted, reveal
from twinlog.config.security.connection import SaslSettings
from twinlog.config.security.jaas import KEY as JAAS
from twinlog.config.security.jaas import parse_jaas
from twinlog.errors import ConfigError

ClientProperties = Mapping[str, str | Secret]
_SECURITY = "org.apache.kafka.common.security."
_OAUTH_CALLBACKS = frozenset(
    _SECURITY + name
    for name in (
        "oauthbearer.OAuthBearerLoginCallbackHandler",
        # The same handler before Kafka 3.x moved it out of `secured`.
        "oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    )
)
_OAUTH_RETRIEVERS = frozenset(
    _SECURITY + "oauthbearer." + name for name in ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever")
)
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_CREDENTIALS = "sasl.oauthbearer.client.credentials."
_URL_ENCODED = "sasl.oauthbearer.header.urlencode"
_EXTENSION = "extension_"
_CLAIM = re.compile(r"unsecuredLogin(String|Number|List)Claim_(.+)")
_UNSECURED = "unsecuredLogin"
SUPPORTED = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"


def sasl_settings(properties: ClientProperties) -> SaslSettings:
    """Return the login of a SASL connection.

    Raises ConfigError, naming the key, for mechanisms, login modules and callback classes that cannot be followed
    (GSSAPI, MSK IAM, custom classes).
    """
    key = "sasl.mechanism"
    if key not in properties:
        raise ConfigError(
            f"{key}: is not set, and Java's default GSSAPI (Kerberos) cannot be used here",
            hint=f"set {SUPPORTED}",
            key=key,
        )
    mechanism = reveal(properties[key]).upper()
    login = _LOGINS.get(mechanism)
    if login is None:
        raise ConfigError(
            f"{key}: {quoted(properties[key])} cannot be used here", hint=f"set {SUPPORTED}", key=key
        )
    handler_key = "sasl.client.callback.handler.class"
    if properties.get(handler_key):
        raise ConfigError(f"{handler_key}: Java classes cannot run here", hint="remove it", key=handler_key)
    return login(mechanism, properties)


def _user_and_password(module: str) -> Callable[[str, ClientProperties], SaslSettings]:
    def login(mechanism: str, properties: ClientProperties) -> SaslSettings:
        _refuse_handler(properties, frozenset())
        options = _options(properties, module)
        if options.get("tokenauth", "false").lower() == "true":
            raise _wrong(JAAS, "delegation tokens (tokenauth) cannot be used here")
        missing = [name for name in ("username", "password") if not options.get(name)]
        if missing:
            raise _wrong(JAAS, f"has no {' and no '.join(missing)}")
        return SaslSettings(mechanism, options["username"], Secret(options["password"]))

    return login


def _oauth(mechanism: str, properties: ClientProperties) -> SaslSettings:
    _refuse_handler(properties, _OAUTH_CALLBACKS)
    options = _options(properties, "oauthbearer.OAuthBearerLoginModule")
    endpoint = reveal(properties.get(_ENDPOINT, ""))
    if not endpoint:
        return _unsecured(mechanism, options)
    if not _is_web_address(endpoint):
        raise _wrong(_ENDPOINT, "is not an http or https URL; a token in a file cannot be used here")
    retriever_key = "sasl.oauthbearer.jwt.retriever.class"
    retriever = reveal(properties.get(retriever_key, ""))
    if retriever and retriever not in _OAUTH_RETRIEVERS:
        raise _wrong(retriever_key, "cannot run here", "use the client credentials grant")
    _refuse_what_the_endpoint_would_miss(properties, options)
    # KIP-1139: the properties win over the JAAS options of older releases.
    client = reveal(properties.get(_CREDENTIALS + "client.id", options.get("clientId", "")))
    secret = reveal(properties.get(_CREDENTIALS + "client.secret", options.get("clientSecret", "")))
    if not client or not secret:
        raise _wrong(
            _ENDPOINT,
            "needs a client id and a client secret",
            f"set {_CREDENTIALS}client.id and client.secret",
        )
    scope = reveal(properties.get("sasl.oauthbearer.scope", options.get("scope", "")))
    extensions = _extensions(options)
    return SaslSettings(mechanism, client, Secret(secret), endpoint, scope or None, extensions=extensions)


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _extensions(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Read `extension_NAME=value` options (KIP-342), which librdkafka takes as a list with commas."""
    found = tuple(
        (name.removeprefix(_EXTENSION), value)
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    )
    if any("," in value for _, value in found):
        raise _wrong(JAAS, "the value of an extension holds a comma, which cannot be passed on")
    return found


def _refuse_what_the_endpoint_would_miss(properties: ClientProperties, options: Mapping[str, str]) -> None:
    """Refuse settings that the token endpoint's client would ignore.

    Its TLS is the library's own, with the machine's certificates.
    """
    if any(name.startswith("ssl.") for name in options):
        raise _wrong(
            JAAS,
            "TLS options of the token endpoint cannot be used here",
            "let the machine trust its certificate",
        )
    if reveal(properties.get(_URL_ENCODED, "")).lower() == "true":
        raise _wrong(
            _URL_ENCODED, "cannot be used here", "remove it, or choose a client secret without such letters"
        )


def _unsecured(mechanism: str, options: Mapping[str, str]) -> SaslSettings:
    """Return the login of Kafka's OAuthBearerUnsecuredLoginCallbackHandler: for development only."""
    claims: list[tuple[str, str]] = []
    for name, value in options.items():
        match = _CLAIM.fullmatch(name)
        if match is not None:
            claims.append((match[2], value))
    principal = options.get(f"{_UNSECURED}PrincipalClaimName", "sub")
    username = dict(claims).get(principal, "")
    if not username:
        raise _wrong(
            JAAS,
            "has neither a token endpoint nor an unsecured login",
            f"set {_ENDPOINT}, or {_UNSECURED}StringClaim_sub for development",
        )
    rest = tuple((name, value) for name, value in claims if name != principal)
    return SaslSettings(mechanism, username, unsecured_claims=((principal, username), *rest))


def _options(properties: ClientProperties, module: str) -> Mapping[str, str]:
    if not properties.get(JAAS):
        raise _wrong(JAAS, "is missing", f"name {_SECURITY}{module} with its options")
    found = parse_jaas(reveal(properties[JAAS]))
    if found.name != _SECURITY + module:
        raise _wrong(
            JAAS, "names another login module than this sasl.mechanism needs", f"name {_SECURITY}{module}"
        )
    return found.options


def _refuse_handler(properties: ClientProperties, allowed: frozenset[str]) -> None:
    key = "sasl.login.callback.handler.class"
    handler = reveal(properties.get(key, ""))
    if handler and handler not in allowed:
        raise _wrong(key, "Java classes cannot run here", "remove it")


def _wrong(key: str, what: str, hint: str = "") -> ConfigError:
    return ConfigError(f"{key}: {what}", hint=hint, key=key)


_LOGINS: Mapping[str, Callable[[str, ClientProperties], SaslSettings]] = {
    "PLAIN": _user_and_password("plain.PlainLoginModule"),
    "SCRAM-SHA-256": _user_and_password("scram.ScramLoginModule"),
    "SCRAM-SHA-512": _user_and_password("scram.ScramLoginModule"),
    "OAUTHBEARER": _oauth,
}
