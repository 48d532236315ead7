"""Java client properties as the relay's connection and as confluent-kafka's configuration."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from twinlog.config.file.providers import Secret
from twinlog.config.security.client_properties import connection_settings
from twinlog.config.security.connection import (
    ClusterSettings,
    KerberosSettings,
    SaslSettings,
    SecurityProtocol,
    TokenProvider,
)
from twinlog.config.security.librdkafka import MAPPED, Role, librdkafka, security
from twinlog.config.security.sasl import MSK_PROVIDER
from twinlog.errors import ConfigError

MSK = "software.amazon.msk.auth.iam."
SECURITY = "org.apache.kafka.common.security."
BASE: dict[str, str | Secret] = {"bootstrap.servers": "k1:9092"}
USER = 'required username="alice" password="hunter2";'
ENDPOINT = "https://id.example/token"


def sasl(mechanism: str, jaas: str = "", **more: str) -> dict[str, str | Secret]:
    given: dict[str, str | Secret] = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    if jaas:
        given["sasl.jaas.config"] = Secret(SECURITY + jaas)
    return BASE | given | {key.replace("__", "."): value for key, value in more.items()}


def cluster(properties: dict[str, str | Secret]) -> ClusterSettings:
    connection = connection_settings("A", properties)
    return ClusterSettings("A", "k1:9092", connection, properties, properties, properties)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a:1", (("a", 1),)),
        (" a:1 , b.example:2,,a:1", (("a", 1), ("b.example", 2))),
        ("[2001:db8::1]:9092", (("2001:db8::1", 9092),)),
        ("SASL_SSL://a-b.example:9093", (("a-b.example", 9093),)),
    ],
)
def test_bootstrap_servers(written: str, expected: tuple[tuple[str, int], ...]) -> None:
    """Java's spellings of an address, each once."""
    assert expected == connection_settings("A", {"bootstrap.servers": written}).bootstrap


@pytest.mark.parametrize("written", ["", "a", "a:", "a:0", "a:70000", "a:x", ":9092", "a:1;b:2"])
def test_bad_bootstrap_servers(written: str) -> None:
    """The key is named."""
    with pytest.raises(ConfigError) as caught:
        connection_settings("A", {"bootstrap.servers": written})
    assert "bootstrap.servers" == caught.value.data["key"]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (sasl("PLAIN", "plain.PlainLoginModule " + USER), SaslSettings("PLAIN", "alice", Secret("hunter2"))),
        (
            sasl("SCRAM-SHA-256", "scram.ScramLoginModule " + USER),
            SaslSettings("SCRAM-SHA-256", "alice", Secret("hunter2")),
        ),
        (
            sasl("scram-sha-512", "scram.ScramLoginModule " + USER),
            SaslSettings("SCRAM-SHA-512", "alice", Secret("hunter2")),
        ),
        (
            sasl(
                "OAUTHBEARER",
                'oauthbearer.OAuthBearerLoginModule required clientId="c" clientSecret="s" scope="x";',
                sasl__oauthbearer__token__endpoint__url=ENDPOINT,
                sasl__login__callback__handler__class=SECURITY
                + "oauthbearer.secured.OAuthBearerLoginCallbackHandler",
            ),
            SaslSettings("OAUTHBEARER", "c", Secret("s"), ENDPOINT, "x"),
        ),
        (
            sasl(
                "OAUTHBEARER",
                'oauthbearer.OAuthBearerLoginModule required clientId="c" clientSecret="s"'
                ' extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1";',
                sasl__oauthbearer__token__endpoint__url=ENDPOINT,
            ),
            SaslSettings(
                "OAUTHBEARER",
                "c",
                Secret("s"),
                ENDPOINT,
                extensions=(("logicalCluster", "lkc-1"), ("identityPoolId", "pool-1")),
            ),
        ),
        (
            sasl(
                "OAUTHBEARER",
                "oauthbearer.OAuthBearerLoginModule required;",
                sasl__oauthbearer__token__endpoint__url=ENDPOINT,
                sasl__oauthbearer__client__credentials__client__id="c",
                sasl__oauthbearer__client__credentials__client__secret="s",
            ),
            SaslSettings("OAUTHBEARER", "c", Secret("s"), ENDPOINT),
        ),
        (
            sasl(
                "OAUTHBEARER",
                'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="dev"'
                ' unsecuredLoginNumberClaim_n="1";',
            ),
            SaslSettings("OAUTHBEARER", "dev", unsecured_claims=(("sub", "dev"), ("n", "1"))),
        ),
        (
            sasl(
                "OAUTHBEARER",
                'oauthbearer.OAuthBearerLoginModule required audience="kafka" extension_pool="p";',
                sasl__login__callback__handler__class="python:company.tokens.kafka",
            ),
            SaslSettings(
                "OAUTHBEARER",
                token_provider=TokenProvider("company.tokens.kafka", (("audience", Secret("kafka")),)),
                extensions=(("pool", "p"),),
            ),
        ),
        (
            sasl(
                "OAUTHBEARER",
                "oauthbearer.OAuthBearerLoginModule required;",
                sasl__oauthbearer__token__endpoint__url="file:///var/run/a%20token",
            ),
            SaslSettings("OAUTHBEARER", token_file="/var/run/a token"),
        ),
        (
            BASE
            | {
                "bootstrap.servers": "b-1.dr.x1.c2.kafka.eu-west-1.amazonaws.com:9098",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "AWS_MSK_IAM",
                "sasl.jaas.config": f'{MSK}IAMLoginModule required awsRoleArn="arn:x" awsDebugCreds="true";',
                "sasl.client.callback.handler.class": f"{MSK}IAMClientCallbackHandler",
            },
            SaslSettings(
                "OAUTHBEARER",
                token_provider=TokenProvider(
                    MSK_PROVIDER, (("role_arn", Secret("arn:x")), ("region", Secret("eu-west-1")))
                ),
            ),
        ),
        (
            sasl(
                "OAUTHBEARER",
                "oauthbearer.OAuthBearerLoginModule required;",
                sasl__login__callback__handler__class=f"{MSK}IAMOAuthBearerLoginCallbackHandler",
                sasl__client__callback__handler__class=f"{MSK}IAMOAuthBearerLoginCallbackHandler",
            ),
            SaslSettings("OAUTHBEARER", token_provider=TokenProvider(MSK_PROVIDER)),
        ),
    ],
)
def test_logins(properties: dict[str, str | Secret], expected: SaslSettings) -> None:
    """Each mechanism, from JAAS options and from properties; librdkafka accepts the same."""
    assert expected == connection_settings("A", properties).sasl
    confluent_kafka.Consumer({**librdkafka(cluster(properties), "consumer"), "group.id": "g"}).close()


KRB5 = "com.sun.security.auth.module.Krb5LoginModule required "
WITH_KEYTAB = KRB5 + 'useKeyTab=true storeKey=true keyTab="/etc/k" principal="t@R";'


def kerberos(jaas: str, **more: str) -> dict[str, str | Secret]:
    """The properties of a Kerberos login, for a service of its own name unless `more` says another."""
    service = {"sasl__kerberos__service__name": "kafka"}
    return sasl("GSSAPI", **service | more) | {"sasl.jaas.config": Secret(jaas)}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (kerberos(WITH_KEYTAB), KerberosSettings("kafka", "t@R", "/etc/k")),
        (
            {key: value for key, value in kerberos(WITH_KEYTAB).items() if key != "sasl.mechanism"},
            KerberosSettings("kafka", "t@R", "/etc/k"),
        ),
        (kerberos(WITH_KEYTAB.replace("/etc", "FILE:/etc")), KerberosSettings("kafka", "t@R", "/etc/k")),
        (kerberos(KRB5 + "useTicketCache=true;"), KerberosSettings("kafka")),
        (
            kerberos(
                KRB5 + 'useTicketCache=true ticketCache="/tmp/c" serviceName="x";',
                sasl__kerberos__service__name="y",
            ),
            KerberosSettings("y", ticket_cache="/tmp/c"),
        ),
    ],
)
def test_kerberos(properties: dict[str, str | Secret], expected: KerberosSettings) -> None:
    """A keytab or a ticket cache, as Krb5LoginModule takes them; GSSAPI is the mechanism if none is named."""
    assert SaslSettings("GSSAPI", kerberos=expected) == connection_settings("A", properties).sasl


def test_confluent_kafka_needs_a_build_with_gssapi() -> None:
    """Its wheel has none, so only such a build takes these."""
    found = librdkafka(cluster(kerberos(WITH_KEYTAB)), "consumer")
    assert {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": "/etc/k",
        "sasl.kerberos.principal": "t@R",
    } == {key: value for key, value in found.items() if key.startswith("sasl")}
    with pytest.raises(confluent_kafka.KafkaException, match="GSSAPI"):
        confluent_kafka.Consumer({**found, "group.id": "g"})


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        (kerberos(KRB5 + "useKeyTab=true;"), "sasl.jaas.config"),
        (kerberos(KRB5 + "storeKey=true;"), "sasl.jaas.config"),
        (kerberos(WITH_KEYTAB, sasl__kerberos__service__name=""), "sasl.kerberos.service.name"),
        (BASE | {"security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        (sasl("GSSAPI"), "sasl.jaas.config"),
        (sasl("SCRAM"), "sasl.mechanism"),
        (sasl("AWS_MSK_IAM", "x required;"), "sasl.jaas.config"),
        (
            sasl("AWS_MSK_IAM") | {"sasl.jaas.config": f'{MSK}IAMLoginModule required awsStsRegion="eu";'},
            "sasl.jaas.config",
        ),
        (
            sasl(
                "OAUTHBEARER",
                "oauthbearer.OAuthBearerLoginModule required;",
                sasl__login__callback__handler__class="python:tokens",
            ),
            "sasl.login.callback.handler.class",
        ),
        (sasl("PLAIN"), "sasl.jaas.config"),
        (sasl("PLAIN", "scram.ScramLoginModule " + USER), "sasl.jaas.config"),
        (sasl("PLAIN", 'plain.PlainLoginModule required username="alice";'), "sasl.jaas.config"),
        (sasl("SCRAM-SHA-256", 'scram.ScramLoginModule required tokenauth="true";'), "sasl.jaas.config"),
        (sasl("PLAIN", "plain.PlainLoginModule " + USER, sasl__login__class="x"), "sasl.login.class"),
        (
            sasl("PLAIN", "plain.PlainLoginModule " + USER, sasl__login__callback__handler__class="x"),
            "sasl.login.callback.handler.class",
        ),
        (
            sasl("PLAIN", "plain.PlainLoginModule " + USER, sasl__client__callback__handler__class="x"),
            "sasl.client.callback.handler.class",
        ),
        (sasl("OAUTHBEARER", "oauthbearer.OAuthBearerLoginModule required;"), "sasl.jaas.config"),
        (
            sasl(
                "OAUTHBEARER",
                "oauthbearer.OAuthBearerLoginModule required;",
                sasl__oauthbearer__token__endpoint__url="file://elsewhere/token",
            ),
            "sasl.oauthbearer.token.endpoint.url",
        ),
        (
            sasl(
                "OAUTHBEARER",
                'oauthbearer.OAuthBearerLoginModule required clientId="c";',
                sasl__oauthbearer__token__endpoint__url=ENDPOINT,
            ),
            "sasl.oauthbearer.token.endpoint.url",
        ),
        *(
            (
                sasl(
                    "OAUTHBEARER",
                    f'oauthbearer.OAuthBearerLoginModule required clientId="c" clientSecret="s" {option};',
                    sasl__oauthbearer__token__endpoint__url=url,
                    sasl__oauthbearer__header__urlencode=encoded,
                ),
                key,
            )
            for option, url, encoded, key in (
                ('ssl.truststore.location="/x.pem"', ENDPOINT, "false", "sasl.jaas.config"),
                ('extension_pools="a,b"', ENDPOINT, "false", "sasl.jaas.config"),
                ("", ENDPOINT, "true", "sasl.oauthbearer.header.urlencode"),
                ("", "https://[", "false", "sasl.oauthbearer.token.endpoint.url"),
                ("", "https:///token", "false", "sasl.oauthbearer.token.endpoint.url"),
            )
        ),
        (BASE | {"ssl.engine.factory.class": "x"}, "ssl.engine.factory.class"),
        (BASE | {"security.protocol": "TLS"}, "security.protocol"),
        (BASE | {"request.timeout.ms": "soon"}, "request.timeout.ms"),
        (
            BASE | {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldaps"},
            "ssl.endpoint.identification.algorithm",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused(properties: dict[str, str | Secret], key: str) -> None:
    """The key is named, and no secret is."""
    with pytest.raises(ConfigError) as caught:
        connection_settings("A", properties)
    assert (key, False) == (caught.value.data["key"], "hunter2" in str(caught.value))


def test_tls(certificates: ModuleType, tmp_path: Path) -> None:
    """A trust store and a key store arrive as PEM, and librdkafka accepts them."""
    (tmp_path / "t").write_bytes(certificates.pkcs12_trust_store("ca"))
    (tmp_path / "k").write_bytes(certificates.pkcs12_key_store("client"))
    password = Secret(certificates.PASSWORD)
    properties = BASE | {
        "security.protocol": "ssl",
        "ssl.truststore.location": str(tmp_path / "t"),
        "ssl.truststore.password": password,
        "ssl.keystore.location": str(tmp_path / "k"),
        "ssl.keystore.password": password,
        "ssl.keystore.type": "PKCS12",
        "ssl.endpoint.identification.algorithm": "",
    }
    connection = connection_settings("A", properties)
    assert SecurityProtocol.SSL == connection.protocol
    assert (False, certificates.certificate_pem("ca")) == (
        connection.tls.verify_hostname,
        connection.tls.ca_pem,
    )
    found = security(connection)
    assert "none" == found["ssl.endpoint.identification.algorithm"]
    assert certificates.key_pem("client") == found["ssl.key.pem"]
    confluent_kafka.Producer(found)
    assert certificates.key_pem("client") not in repr(connection)


TUNED: dict[str, str | Secret] = {
    "client.id": "mine",
    "client.rack": "r1",
    "request.timeout.ms": "40000",
    "metadata.max.age.ms": "60000",
    "retry.backoff.ms": "100",
    "reconnect.backoff.max.ms": "1000",
    "connections.max.idle.ms": "540000",
    "fetch.max.bytes": "52428800",
    "auto.offset.reset": "none",
    "acks": "1",
    "linger.ms": "5",
    "compression.type": "lz4",
}


def started(role: Role, properties: dict[str, str | Secret]) -> dict[str, object]:
    """What a client of this role gets, which starts with it."""
    found = librdkafka(cluster(BASE | properties), role)
    match role:
        case "consumer":
            confluent_kafka.Consumer({**found, "group.id": "g"}).close()
        case "producer":
            confluent_kafka.Producer(found)
        case "admin":
            AdminClient(found)
    return dict(found)


@pytest.mark.parametrize("role", ["consumer", "producer", "admin"])
def test_tunables(role: Role) -> None:
    """What Java says of connections goes to librdkafka; acks and idempotence are held; of records, nothing."""
    expected = {
        "client.rack": "r1",
        "socket.timeout.ms": 40_000,
        "metadata.max.age.ms": 60_000,
        "retry.backoff.ms": 100,
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 1000,
        "connections.max.idle.ms": 540_000,
    }
    if role == "producer":
        expected |= {"acks": "all", "enable.idempotence": True}
    of_the_connection = security(connection_settings("A", BASE, client_id="twinlog")).keys()
    found = started(role, TUNED)
    assert expected == {key: value for key, value in found.items() if key not in of_the_connection}


TIME_OUTS = {"request.timeout.ms", "socket.connection.setup.timeout.ms"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (key, value)
        for key in MAPPED
        for value in ("-1", "0", "1", "49", "1000", "600000", "172800000", "9999999999")
        if int(value) > 0 or key not in TIME_OUTS  # no time to answer in is a mistake
    ],
)
def test_what_java_allows_starts_a_client(key: str, value: str) -> None:
    """librdkafka's ranges are narrower than Java's: a value goes to the border, and the client starts."""
    started("consumer", {key: value})


@pytest.mark.parametrize("value", ["abc", "1s", "1_000", "1.5", ""])
def test_what_is_no_number_is_refused_by_key(value: str) -> None:
    """Also what Python's int would take."""
    with pytest.raises(ConfigError, match=r"^retry\.backoff\.ms: is not a whole number"):
        librdkafka(cluster(BASE | {"retry.backoff.ms": value}), "admin")


def test_times_of_the_connection() -> None:
    """Java's time-outs are the relay's."""
    found = connection_settings(
        "A", BASE | {"request.timeout.ms": "7", "socket.connection.setup.timeout.ms": "8"}, client_id="c"
    )
    assert (7, 8, "c") == (found.request_timeout_ms, found.connect_timeout_ms, found.client_id)
