"""A small certificate authority for embedded brokers: CA, server and client, as PEM and PKCS#12.

| file | what |
|---|---|
| ca.pem | the authority's certificate |
| server.pem, server.key | the broker's certificate and PKCS#8 key, unencrypted: Java 17 reads no PBES2 PEM |
| client.pem, client.key | the client's, unencrypted |
| client.encrypted.key | the client's key, PBES2 with the password |
| server.p12 | the broker's key store, for brokers before 2.7, which read no PEM (KIP-651) |
| client.p12, truststore.p12 | key store and trust store, PKCS#12, PBE-SHA1-3DES: every Java reads it |

The stores' password is in `Certificates.password`.  The authority's key is thrown away, so it can sign nothing else.
Cost: about 0.5 s (three RSA keys).
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

_LIFE = dt.timedelta(days=30)
_ALIAS = "twinlog"


class _File:
    """The path of a file in the folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, made: Certificates, _owner: type) -> Path:
        return made.folder / self._name


@dataclass(frozen=True)
class Certificates:
    """The paths of the files, and the password of the stores and of the encrypted key; the client is CN=client."""

    folder: Path
    password: str = "not-a-secret"

    ca = _File("ca.pem")
    server, server_key = _File("server.pem"), _File("server.key")
    client, client_key = _File("client.pem"), _File("client.key")
    client_encrypted_key = _File("client.encrypted.key")
    server_pkcs12 = _File("server.p12")
    client_pkcs12, truststore_pkcs12 = _File("client.p12"), _File("truststore.p12")


@dataclass(frozen=True)
class _Identity:
    key: rsa.RSAPrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_bytes(
        self, encoding: serialization.Encoding, encryption: serialization.KeySerializationEncryption
    ) -> bytes:
        return self.key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, encryption)


def make_certificates(folder: Path, hosts: Sequence[str] = ("localhost", "127.0.0.1", "::1")) -> Certificates:
    """Make a new authority and its certificates in `folder`; the server's certificate is valid for `hosts`."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Certificates(folder)
    authority = _issue("twinlog test authority", signer=None)
    server = _issue(hosts[0], signer=authority, hosts=hosts)
    client = _issue("client", signer=authority)
    _write_pem(made, authority, server, client)
    _write_pkcs12(made, authority, server, client)
    return made


def _issue(common_name: str, *, signer: _Identity | None, hosts: Sequence[str] = ()) -> _Identity:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509
        .CertificateBuilder()
        .subject_name(name)
        .issuer_name(signer.certificate.subject if signer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _LIFE)
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if signer:
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key())
        builder = builder.add_extension(issuer, critical=False)
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return _Identity(key, builder.sign(signer.key if signer else key, hashes.SHA256()))


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_pem(made: Certificates, authority: _Identity, server: _Identity, client: _Identity) -> None:
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    encrypted = serialization.BestAvailableEncryption(made.password.encode())
    made.ca.write_bytes(authority.pem)
    made.server.write_bytes(server.pem)
    made.server_key.write_bytes(server.key_bytes(pem, plain))
    made.client.write_bytes(client.pem)
    made.client_key.write_bytes(client.key_bytes(pem, plain))
    made.client_encrypted_key.write_bytes(client.key_bytes(pem, encrypted))


def _write_pkcs12(made: Certificates, authority: _Identity, server: _Identity, client: _Identity) -> None:
    encryption = (
        serialization.PrivateFormat.PKCS12
        .encryption_builder()
        .key_cert_algorithm(pkcs12.PBES.PBESv1SHA1And3KeyTripleDESCBC)
        .hmac_hash(hashes.SHA1())
        .build(made.password.encode())
    )
    for file, owner in ((made.server_pkcs12, server), (made.client_pkcs12, client)):
        keys = pkcs12.serialize_key_and_certificates(
            _ALIAS.encode(), owner.key, owner.certificate, [authority.certificate], encryption
        )
        file.write_bytes(keys)
    trusted = pkcs12.PKCS12Certificate(authority.certificate, _ALIAS.encode())
    made.truststore_pkcs12.write_bytes(pkcs12.serialize_java_truststore([trusted], encryption))
