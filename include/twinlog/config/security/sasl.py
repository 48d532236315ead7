"""Turn mechanism and JAAS entry of a Java client into one SaslSettings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from twinlog.config.file.providers import Secret, quoted
from twinlog.config.security.connection import (
    ClientProperties,
    KerberosSettings,
    SaslSettings,
    TokenProvider,
    text_of,
    wrong,
)
from twinlog.errors import ConfigError

JAAS = "sasl.jaas.config"
FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN = re.compile(
    r"""
    (?P<skip>\s+ | //[^\n]*(?:\n|$) | /\*.*?\*/)
  | (?P<double>"(?:[^"\\\n]|\\.)*")
  | (?P<single>'(?:[^'\\\n]|\\.)*')
  | (?P<equals>=)
  | (?P<end>;)
  | (?P<word>[^\s="';]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The module's class name and its options.  Options may hold a password: they are kept out of `repr`."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


def parse_jaas(text: str) -> LoginModule:
    """Parse the value of `sasl.jaas.config`: one login module with its options, in Java's own small language.

    `Module flag key=value key="value" ... ;` with // and /* */ comments, as Kafka's JaasConfig reads it.
    Raises ConfigError, which never quotes the text, if it is not exactly one terminated entry.
    """
    tokens = list(_tokens(text))
    ends = [index for index, token in enumerate(tokens) if token.kind == "end"]
    if not tokens:
        raise _wrong("is empty")
    if not ends or ends[-1] != len(tokens) - 1:
        raise _wrong("does not end in a semicolon")
    if len(ends) > 1:
        raise _wrong(f"holds {len(ends)} login modules, a client has one")
    return _entry(tokens[:-1])


def _entry(tokens: list[_Token]) -> LoginModule:
    match tokens:
        case [_Token("text", name), _Token("text", flag), *options] if flag.lower() in FLAGS:
            return LoginModule(name, dict(_read_options(options)))
        case _:
            raise _wrong("does not start with a login module and a flag (required, requisite, ...)")


def _read_options(tokens: list[_Token]) -> Iterator[tuple[str, str]]:
    for at in range(0, len(tokens), 3):
        match tokens[at : at + 3]:
            case [_Token("text", name), _Token("equals"), _Token("text", value)]:
                yield name, value
            case _:
                # A stray word may be the second half of a password: count, do not quote.
                raise _wrong(f"its option {at // 3 + 1} is not name=value")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _wrong("has a quote that is not closed")
        at = match.end()
        match match.lastgroup:
            case "double" | "single":
                yield _Token("text", _ESCAPE.sub(_unescaped, match[0][1:-1]))
            case "word":
                yield _Token("text", match[0])
            case "equals" | "end" as kind:
                yield _Token(kind, match[0])
            case _:
                pass


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code.isdigit() and code[0] < "8" else _LETTERS.get(code, code)


def _wrong(what: str) -> ConfigError:
    return wrong(JAAS, what, 'write: <login module class> required username="..." password="...";')


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
_HANDLER = "sasl.login.callback.handler.class"
_PYTHON = "python:"
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_MSK = "software.amazon.msk.auth.iam."
_MSK_OPTIONS = {
    "awsProfileName": "profile",
    "awsRoleArn": "role_arn",
    "awsRoleSessionName": "role_session_name",
    "awsDebugCreds": None,
    "awsMaxRetries": None,
    "awsMaxBackOffTimeMs": None,
}
"""Options of Amazon's login module, and what `msk.token` is called with; None: has no effect here."""
_MSK_ADDRESS = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$", re.IGNORECASE)
MSK_PROVIDER = "twinlog.protocol.socket.msk.token"
_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
_SERVICE = "sasl.kerberos.service.name"
SUPPORTED = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI or AWS_MSK_IAM"


def sasl_settings(properties: ClientProperties) -> SaslSettings:
    """Return the login of a SASL connection.

    Without a mechanism it is GSSAPI, as in Java.  Raises ConfigError, naming the key, for mechanisms, login modules and
    callback classes that cannot be followed.
    """
    key = "sasl.mechanism"
    if key not in properties and _KERBEROS not in text_of(properties, JAAS):
        what = f"is not set, and Java's default GSSAPI needs {_KERBEROS} in {JAAS}"
        raise wrong(key, what, f"set {SUPPORTED}")
    mechanism = text_of(properties, key, "GSSAPI").upper()
    login = _LOGINS.get(mechanism)
    if login is None:
        raise wrong(key, f"{quoted(properties[key])} cannot be used here", f"set {SUPPORTED}")
    handler_key = "sasl.client.callback.handler.class"
    handler = text_of(properties, handler_key)
    if handler and not (handler.startswith(_MSK) and login in {_oauth, _msk}):
        raise wrong(handler_key, "Java classes cannot run here", "remove it")
    return login(mechanism, properties)


def _user_and_password(module: str) -> Callable[[str, ClientProperties], SaslSettings]:
    def login(mechanism: str, properties: ClientProperties) -> SaslSettings:
        _refuse_handler(properties, frozenset())
        options = _options(properties, _SECURITY + module)
        if options.get("tokenauth", "false").lower() == "true":
            raise wrong(JAAS, "delegation tokens (tokenauth) cannot be used here")
        _require(options, "username", "password")
        return SaslSettings(mechanism, options["username"], Secret(options["password"]))

    return login


def _oauth(mechanism: str, properties: ClientProperties) -> SaslSettings:
    options = _options(properties, _SECURITY + "oauthbearer.OAuthBearerLoginModule")
    handler = text_of(properties, _HANDLER)
    if handler.startswith(_MSK):
        return _by_iam(options, properties)
    if handler.startswith(_PYTHON):
        return _by_function(mechanism, handler.removeprefix(_PYTHON), options)
    _refuse_handler(properties, _OAUTH_CALLBACKS)
    endpoint = text_of(properties, _ENDPOINT)
    if not endpoint:
        return _unsecured(mechanism, options)
    if endpoint.startswith("file:"):
        return _in_a_file(mechanism, endpoint, options)
    if not _is_web_address(endpoint):
        raise wrong(_ENDPOINT, "is not an http, https or file URL")
    retriever_key = "sasl.oauthbearer.jwt.retriever.class"
    retriever = text_of(properties, retriever_key)
    if retriever and retriever not in _OAUTH_RETRIEVERS:
        raise wrong(retriever_key, "cannot run here", "use the client credentials grant")
    _refuse_what_the_endpoint_would_miss(properties, options)
    # KIP-1139: the properties win over the JAAS options of older releases.
    client = text_of(properties, _CREDENTIALS + "client.id", options.get("clientId", ""))
    secret = text_of(properties, _CREDENTIALS + "client.secret", options.get("clientSecret", ""))
    if not client or not secret:
        raise wrong(
            _ENDPOINT,
            "needs a client id and a client secret",
            f"set {_CREDENTIALS}client.id and client.secret",
        )
    scope = text_of(properties, "sasl.oauthbearer.scope", options.get("scope", ""))
    extensions = _extensions(options)
    return SaslSettings(mechanism, client, Secret(secret), endpoint, scope or None, extensions=extensions)


def _by_function(mechanism: str, name: str, options: Mapping[str, str]) -> SaslSettings:
    """Return a login whose tokens a function gives; it gets the options of the JAAS entry but for extensions."""
    if not _DOTTED.fullmatch(name):
        raise wrong(_HANDLER, f"{_PYTHON}{name} is no dotted name", f"write {_PYTHON}package.module.function")
    given = tuple((key, Secret(value)) for key, value in options.items() if not key.startswith(_EXTENSION))
    provider = TokenProvider(name, given)
    return SaslSettings(mechanism, token_provider=provider, extensions=_extensions(options))


def _in_a_file(mechanism: str, endpoint: str, options: Mapping[str, str]) -> SaslSettings:
    """Return a login with the token in a file, which is read for each login (Java's FileJwtRetriever)."""
    parts = urlsplit(endpoint)
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
        raise wrong(_ENDPOINT, "names no file of this machine", "write file:///path/of/the/token")
    return SaslSettings(mechanism, token_file=unquote(parts.path), extensions=_extensions(options))


def _msk(_mechanism: str, properties: ClientProperties) -> SaslSettings:
    """Return a login to Amazon MSK, as a file for Amazon's Java library has it.

    That library signs a mechanism of its own, AWS_MSK_IAM, or a token for OAUTHBEARER; the brokers take either, and
    clients in other languages use the token.
    """
    return _by_iam(_options(properties, _MSK + "IAMLoginModule"), properties)


def _by_iam(options: Mapping[str, str], properties: ClientProperties) -> SaslSettings:
    if unknown := sorted(set(options) - set(_MSK_OPTIONS)):
        raise wrong(JAAS, f"has options that cannot be used here: {', '.join(unknown)}")
    hosts = [it.strip().rpartition(":")[0] for it in text_of(properties, "bootstrap.servers").split(",")]
    regions = {match[1] for host in hosts if (match := _MSK_ADDRESS.search(host))}
    given = {name: options[key] for key, name in _MSK_OPTIONS.items() if name is not None and key in options}
    if len(regions) == 1:
        given["region"] = regions.pop()
    provider = TokenProvider(MSK_PROVIDER, tuple((key, Secret(value)) for key, value in given.items()))
    return SaslSettings("OAUTHBEARER", token_provider=provider)


def _gssapi(mechanism: str, properties: ClientProperties) -> SaslSettings:
    """Return a Kerberos login; of Krb5LoginModule's options, those that say where tickets come from.

    A keytab wins over a ticket cache, since it can always get a ticket.
    """
    _refuse_handler(properties, frozenset())
    options = _options(properties, _KERBEROS)
    service = text_of(properties, _SERVICE, options.get("serviceName", ""))
    if not service:
        raise wrong(_SERVICE, "is not set", "set the first part of the brokers' principals, as a rule kafka")
    principal = options.get("principal", "")
    if options.get("useKeyTab", "").lower() == "true":
        _require(options, "keyTab", "principal")
        found = KerberosSettings(service, principal, options["keyTab"].removeprefix("FILE:"))
    elif options.get("useTicketCache", "").lower() == "true":
        found = KerberosSettings(service, principal, ticket_cache=options.get("ticketCache", ""))
    else:
        raise wrong(JAAS, "has neither useKeyTab=true nor useTicketCache=true")
    return SaslSettings(mechanism, kerberos=found)


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
        raise wrong(JAAS, "the value of an extension holds a comma, which cannot be passed on")
    return found


def _refuse_what_the_endpoint_would_miss(properties: ClientProperties, options: Mapping[str, str]) -> None:
    """Refuse settings that the token endpoint's client would ignore.

    Its TLS is the library's own, with the machine's certificates.
    """
    if any(name.startswith("ssl.") for name in options):
        raise wrong(
            JAAS,
            "TLS options of the token endpoint cannot be used here",
            "let the machine trust its certificate",
        )
    if text_of(properties, _URL_ENCODED).lower() == "true":
        raise wrong(
            _URL_ENCODED, "cannot be used here", "remove it, or choose a client secret without such letters"
        )


def _unsecured(mechanism: str, options: Mapping[str, str]) -> SaslSettings:
    """Return the login of Kafka's OAuthBearerUnsecuredLoginCallbackHandler: for development only."""
    claims = [(match[2], value) for name, value in options.items() if (match := _CLAIM.fullmatch(name))]
    principal = options.get(f"{_UNSECURED}PrincipalClaimName", "sub")
    username = dict(claims).get(principal, "")
    if not username:
        raise wrong(
            JAAS,
            "has neither a token endpoint nor an unsecured login",
            f"set {_ENDPOINT}, or {_UNSECURED}StringClaim_sub for development",
        )
    rest = tuple((name, value) for name, value in claims if name != principal)
    return SaslSettings(mechanism, username, unsecured_claims=((principal, username), *rest))


def _options(properties: ClientProperties, module: str) -> Mapping[str, str]:
    if not properties.get(JAAS):
        raise wrong(JAAS, "is missing", f"name {module} with its options")
    found = parse_jaas(text_of(properties, JAAS))
    if found.name != module:
        raise wrong(JAAS, "names another login module than this sasl.mechanism needs", f"name {module}")
    return found.options


def _require(options: Mapping[str, str], *names: str) -> None:
    if missing := [name for name in names if not options.get(name)]:
        raise wrong(JAAS, f"has no {' and no '.join(missing)}")


def _refuse_handler(properties: ClientProperties, allowed: frozenset[str]) -> None:
    handler = text_of(properties, _HANDLER)
    if handler and handler not in allowed:
        hint = f"remove it, or for OAUTHBEARER name a function: {_PYTHON}package.module.function"
        raise wrong(_HANDLER, "Java classes cannot run here", hint)


_LOGINS: Mapping[str, Callable[[str, ClientProperties], SaslSettings]] = {
    "PLAIN": _user_and_password("plain.PlainLoginModule"),
    "SCRAM-SHA-256": _user_and_password("scram.ScramLoginModule"),
    "SCRAM-SHA-512": _user_and_password("scram.ScramLoginModule"),
    "OAUTHBEARER": _oauth,
    "GSSAPI": _gssapi,
    "AWS_MSK_IAM": _msk,
}
