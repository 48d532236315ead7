"""PEM, PKCS12 and JKS stores come out as the same PEM; those of keytool are in java_stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import pytest
from cryptography import x509
from hypothesis import example, given
from hypothesis import strategies as st

from twinlog.config.file.providers import Secret
from twinlog.config.security.stores import own_key, trusted_certificates
from twinlog.errors import ConfigError

JAVA = Path(__file__).with_name("java_stores")
TRUST_PASSWORD = {"ssl.truststore.password": Secret("store-pa55")}
KEY_PASSWORD = {"ssl.keystore.password": Secret("store-pa55")}
Write = Callable[[str | bytes], str]


@pytest.fixture
def stored(tmp_path: Path) -> Write:
    """Write a store and return its path."""

    def write(content: str | bytes) -> str:
        path = tmp_path / f"store-{len(list(tmp_path.iterdir()))}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def test_every_kind_of_trust_store(certificates: ModuleType, stored: Write) -> None:
    """PEM inline, on one line, in a file, and PKCS12 (also declared JKS)."""
    both = certificates.certificate_pem("ca") + certificates.certificate_pem("other")
    password = Secret(certificates.PASSWORD)
    pkcs12 = stored(certificates.pkcs12_trust_store("ca", "other"))
    kinds = [
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": both},
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": both.replace("\n", " ")},
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": Secret(both.replace("\n", ""))},
        {"ssl.truststore.type": "pem", "ssl.truststore.location": stored("# a comment\n" + both)},
        {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": pkcs12,
            "ssl.truststore.password": password,
        },
        {"ssl.truststore.location": pkcs12, "ssl.truststore.password": password},
    ]
    assert [both] * len(kinds) == [trusted_certificates(kind) for kind in kinds]
    assert trusted_certificates({}) is None


def test_every_kind_of_key_store(certificates: ModuleType, stored: Write) -> None:
    """Encrypted or not, the key comes out decrypted, as a Secret, with its certificate first."""
    chain, key = certificates.certificate_pem("client"), certificates.key_pem("client")
    encrypted = certificates.key_pem("client", certificates.KEY_PASSWORD)
    key_password = Secret(certificates.KEY_PASSWORD)
    password = Secret(certificates.PASSWORD)
    inline = {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain}
    pem_file = {"ssl.keystore.type": "PEM", "ssl.keystore.location": stored(encrypted + chain)}
    kinds = [
        inline | {"ssl.keystore.key": Secret(key)},
        inline | {"ssl.keystore.key": Secret(key.replace("\n", " ")), "ssl.key.password": key_password},
        inline | {"ssl.keystore.key": Secret(encrypted), "ssl.key.password": key_password},
        pem_file | {"ssl.key.password": key_password},
        {"ssl.keystore.location": stored(certificates.pkcs12_key_store("client")), "ssl.keystore.password": password},
    ]  # fmt: skip
    found = [own_key(kind) for kind in kinds]
    assert [(True, key)] * len(kinds) == [(it[0].startswith(chain), it[1].reveal()) for it in found if it]
    assert own_key({}) is None


def test_trust_stores_of_keytool() -> None:
    """A JKS holds what the PKCS12 of the same authorities holds, also without its password, as in Java."""
    jks, pkcs12 = ({"ssl.truststore.location": str(JAVA / name)} for name in ("trust.jks", "trust.p12"))
    found = [trusted_certificates(it) for it in (jks | TRUST_PASSWORD, jks, pkcs12 | TRUST_PASSWORD)]
    held = [sorted(x509.load_pem_x509_certificates(it.encode()), key=str) for it in found]
    assert [held[0]] * 3 == held
    assert 2 == len(held[0])


def test_key_stores_of_keytool() -> None:
    """A JKS holds what the PKCS12 of the same key holds: chain and key, also under a password of the key's own."""
    own_password = {"ssl.key.password": Secret("key-pa55")}
    kinds = [("client.jks", {}), ("own-password.jks", own_password), ("client.p12", {})]
    found = [
        own_key({"ssl.keystore.location": str(JAVA / name)} | KEY_PASSWORD | more) for name, more in kinds
    ]
    pairs = [(chain, key.reveal()) for chain, key in found]
    assert [pairs[0]] * 3 == pairs
    assert 2 == pairs[0][0].count("BEGIN CERTIFICATE")


@example(547, 126)  # the version of a certificate
@given(st.integers(0, 884), st.integers(0, 255) | st.none())
def test_a_damaged_jks_is_one_line(at: int, byte: int | None) -> None:
    """Whatever byte is another, and wherever the file ends: the key comes out, or one line says that it cannot."""
    whole = (JAVA / "client.jks").read_bytes()
    damaged = whole[:at] if byte is None else whole[:at] + bytes([byte]) + whole[at + 1 :]
    with TemporaryDirectory() as folder:
        (store := Path(folder, "store")).write_bytes(damaged)
        try:
            found = own_key({"ssl.keystore.location": str(store)} | KEY_PASSWORD)
        except ConfigError:
            return
    assert own_key({"ssl.keystore.location": str(JAVA / "client.jks")} | KEY_PASSWORD) == found


def test_a_jceks_is_refused_with_the_line_that_converts_it() -> None:
    """By what it holds, and by what it is said to be."""
    store = {"ssl.truststore.location": str(JAVA / "trust.jceks")} | TRUST_PASSWORD
    for properties in (store, store | {"ssl.truststore.type": "jceks"}):
        with pytest.raises(ConfigError, match=r"keytool -importkeystore .*-srcstoretype JCEKS"):
            trusted_certificates(properties)


def test_broken_stores_are_refused_by_key(certificates: ModuleType, stored: Write) -> None:
    """The property at fault is named, a password never is."""
    wrong = Secret("hunter2")
    chain = certificates.certificate_pem("client")
    encrypted = certificates.key_pem("client", certificates.KEY_PASSWORD)
    pem = {"ssl.keystore.certificate.chain": chain, "ssl.keystore.key": Secret(encrypted)}
    trust, own = trusted_certificates, own_key
    cases = [
        (trust, {"ssl.truststore.location": "/none"}, "ssl.truststore.location: cannot be read"),
        (trust, {"ssl.truststore.location": stored("hello")}, "is neither PEM, PKCS12 nor JKS"),
        (
            trust,
            {"ssl.truststore.type": "BCFKS"},
            "ssl.truststore.type: names a store that cannot be read here",
        ),
        (
            trust,
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": stored(b"\x30\x00")},
            "is declared PEM and holds none",
        ),
        (
            trust,
            {"ssl.truststore.certificates": "nothing"},
            "ssl.truststore.certificates: holds no certificate",
        ),
        (
            trust,
            {"ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"},
            "cannot be read",
        ),
        (
            trust,
            {
                "ssl.truststore.location": str(JAVA / "trust.jks"),
                "ssl.truststore.password": wrong,
            },
            "ssl.truststore.password: does not open the store",
        ),
        (
            trust,
            {
                "ssl.truststore.location": stored(certificates.pkcs12_trust_store("ca")),
                "ssl.truststore.password": wrong,
            },
            "ssl.truststore.password: does not open the store",
        ),
        (
            own,
            {"ssl.keystore.location": stored(certificates.pkcs12_key_store("client"))},
            "ssl.keystore.password: is missing",
        ),
        (
            own,
            {
                "ssl.keystore.location": str(JAVA / "two-keys.jks"),
                "ssl.keystore.password": Secret(certificates.PASSWORD),
            },
            "ssl.keystore.location: holds 2 private keys",
        ),
        (
            own,
            {"ssl.keystore.location": str(JAVA / "own-password.jks")} | KEY_PASSWORD,
            "ssl.key.password: does not open the private key",
        ),
        (
            own,
            {
                "ssl.keystore.location": stored(certificates.pkcs12_trust_store("ca")),
                "ssl.keystore.password": Secret(certificates.PASSWORD),
            },
            "holds no private key",
        ),
        (own, pem, "ssl.keystore.key: the private key is encrypted; set ssl.key.password"),
        (own, pem | {"ssl.key.password": wrong}, "ssl.key.password: does not open the private key"),
        (own, {"ssl.keystore.key": chain}, "ssl.keystore.key: holds no PEM private key"),
    ]
    for read, properties, part in cases:
        with pytest.raises(ConfigError) as caught:
            read(properties)
        assert (part, False) == (
            part if part in str(caught.value) else str(caught.value),
            "hunter2" in str(caught.value),
        )
