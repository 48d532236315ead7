"""Which client follows a Java property: the table of all keys, held to what changing each of them changes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from twinlog.config.file.java_keys import CLIENT_KEYS, ROLE_KEYS
from twinlog.config.flow.flows import ResolvedFlow
from twinlog.config.flow.load import resolve
from twinlog.config.security.exposure import Reach, reach
from twinlog.config.security.librdkafka import connection_of, librdkafka
from twinlog.errors import ConfigError

HEAD = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
MODULE = "org.apache.kafka.common.security"
PLAIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{MODULE}.plain.PlainLoginModule required username="u" password="p";',
}
OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f"{MODULE}.oauthbearer.OAuthBearerLoginModule required;",
    "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    "sasl.oauthbearer.client.credentials.client.id": "i",
    "sasl.oauthbearer.client.credentials.client.secret": "s",
}
KERBEROS = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;",
}
SIDES = (("A", "source", "consumer"), ("B", "target", "producer"))
OF_A_STORE = {
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.password",
    "ssl.truststore.password",
}
"""They open what another key names: test_stores.py."""
CASES = [
    (*side, role, key)
    for side in SIDES
    for role, keys in ROLE_KEYS.items()
    for key in sorted(keys - OF_A_STORE)
]
VALUES = {
    "bootstrap.servers": "other:9",
    "security.protocol": "PLAINTEXT",
    "ssl.endpoint.identification.algorithm": "",
    "sasl.mechanism": "OTHER",
    "sasl.jaas.config": f'{MODULE}.plain.PlainLoginModule required username="x" password="y";',
    "ssl.truststore.type": "NONE",
    "ssl.keystore.type": "NONE",
    "sasl.oauthbearer.token.endpoint.url": "https://other/token",
    "sasl.oauthbearer.header.urlencode": "true",
    "isolation.level": "read_uncommitted",
    "auto.offset.reset": "latest",
    "client.rack": "r1",
    "acks": "0",
    "enable.idempotence": "false",
}
"""Values that would change something where the key is followed; 4711 for every other key."""


def outcome(
    folder: Path, alias: str, side: str, role: str, properties: dict[str, str]
) -> tuple[object, object]:
    """Return what the copy's connection and settings come to, and the others'; a refusal is an outcome."""
    path = folder / "f"
    lines = [f"{alias}.{role}.{key} = {value}" for key, value in properties.items()]
    path.write_text(HEAD + "\n".join(lines))
    try:
        flow: ResolvedFlow = resolve(path, environ={}).flows["A->B"]
    except ConfigError as error:
        return str(error), str(error)
    cluster = getattr(flow.settings, side)
    relay = replace(cluster.connection), flow.settings.copy
    try:
        other = connection_of(cluster, role) if role == "admin" else librdkafka(cluster, role)  # type: ignore[arg-type]
        return relay, other
    except ConfigError as error:
        return relay, str(error)


def base_of(key: str) -> dict[str, str]:
    """Return properties beside which a key has something to say."""
    if "kerberos" in key:
        return KERBEROS
    if "oauthbearer" in key or key.startswith("sasl.login."):
        return OAUTH
    return PLAIN if key.startswith(("sasl.", "ssl.", "security.")) else {}


@pytest.mark.parametrize(("alias", "side", "relay_role", "role", "key"), CASES)
def test_the_table_says_what_changes(
    tmp_path: Path, alias: str, side: str, relay_role: str, role: str, key: str
) -> None:
    """Each key of each role, on both sides of a flow: changed, the copy or what is beside it changes, or neither."""
    base = base_of(key)
    before = outcome(tmp_path, alias, side, role, base)
    after = outcome(tmp_path, alias, side, role, base | {key: VALUES.get(key, "4711")})
    changed = before[0] != after[0], before[1] != after[1]
    says = reach(role, key, relay_role)
    if says is Reach.CHECKED or isinstance(after[0], str):  # refused by key, whoever would have followed it
        assert Reach.NEITHER is not says
        return
    expected = {
        Reach.BOTH: (True, True),
        Reach.COPY: (True, False),
        Reach.OTHERS: (False, True),
        Reach.NEITHER: (False, False),
    }[says]
    assert expected == changed


def test_a_key_that_nobody_follows_is_noted(tmp_path: Path) -> None:
    """Of all keys of addresses and security, per cluster as MM2's users write them: no silence about any."""
    silent = []
    for key in sorted(CLIENT_KEYS):
        nobody = all(reach(role, key, role) is Reach.NEITHER for role in ROLE_KEYS)
        path = tmp_path / "f"
        path.write_text(HEAD + f"A.{key} = x\n")
        try:
            noted = any("f:5" in note for note in resolve(path, environ={}).notes)
        except ConfigError:
            noted = nobody
        silent += [key] if noted != nobody else []
    assert [] == silent


def test_the_page_says_the_same() -> None:
    """docs/configuration.md names every key that reaches the copy alone, or everything else alone."""
    page = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*`.*) \| (yes|no) \| (yes|no) \|$", page, re.MULTILINE)
    told = {copy + other: set(re.findall(r"`([a-z.]+)`", keys)) for keys, copy, other in rows}
    for reached, answer in ((Reach.COPY, "yesno"), (Reach.OTHERS, "noyes")):
        keys = {key for key in ROLE_KEYS["consumer"] if reach("consumer", key, "consumer") is reached}
        assert keys == told[answer]
