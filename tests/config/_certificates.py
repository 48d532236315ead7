"""Keys, certificates and stores for tests, made with the cryptography package."""

from __future__ import annotations

import datetime as dt
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

PASSWORD = "store-pa55"
KEY_PASSWORD = "key-pa55"


@cache
def pair(name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """A key and its self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    certificate = (
        x509
        .CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=36500))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def certificate_pem(name: str) -> str:
    return pair(name)[1].public_bytes(Encoding.PEM).decode()


def key_pem(name: str, password: str = "") -> str:
    """PKCS8; with a password PBES2, as OpenSSL 3 writes it."""
    how: KeySerializationEncryption = (
        BestAvailableEncryption(password.encode()) if password else NoEncryption()
    )
    return pair(name)[0].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how).decode()


def pkcs12_key_store(name: str) -> bytes:
    key, certificate = pair(name)
    return pkcs12.serialize_key_and_certificates(
        b"client", key, certificate, [pair("ca")[1]], BestAvailableEncryption(PASSWORD.encode())
    )


def pkcs12_trust_store(*names: str) -> bytes:
    certificates = [pkcs12.PKCS12Certificate(pair(name)[1], name.encode()) for name in names]
    return pkcs12.serialize_java_truststore(certificates, BestAvailableEncryption(PASSWORD.encode()))
