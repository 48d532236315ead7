"""Read Java's key stores and trust stores as PEM texts: PEM, PKCS12 and JKS, from a file or inline.

The bytes decide the type of a store, as in Java's own JKS provider, which also reads PKCS12.  Private keys leave this
module decrypted (PBES2 included) and wrapped in Secret.  Errors name the property, never a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from twinlog.config.file.providers import Secret, reveal
from twinlog.config.security.connection import ClientProperties, text_of, wrong
from twinlog.config.security.jks import MAGIC as JKS_MAGIC
from twinlog.config.security.jks import JavaKeyStore, WrongPasswordError, read_jks
from twinlog.errors import ConfigError

JCEKS_MAGIC = b"\xce\xce\xce\xce"
STORE_TYPES = frozenset({"JKS", "PKCS12", "PEM"})
_TO_PKCS12 = (
    "keytool -importkeystore -srckeystore OLD -srcstoretype JCEKS -destkeystore NEW -deststoretype PKCS12"
)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL)
_ARMOUR = re.compile(r"\s*(-----(?:BEGIN|END) [A-Z0-9 ]+-----)\s*")


def trusted_certificates(properties: ClientProperties) -> str | None:
    """Return the PEM of `ssl.truststore.*`, or None for the system's own store.

    Raises ConfigError if the store cannot be read, is of an unknown type or holds no certificate.
    """
    kind = _declared_type(properties, "ssl.truststore.type")
    inline = properties.get("ssl.truststore.certificates")
    if inline is not None:
        return _certificates_in(_unfolded(reveal(inline)), "ssl.truststore.certificates")
    key = "ssl.truststore.location"
    if not properties.get(key):
        return None
    content = _content(properties, key)
    password = _password(properties, "ssl.truststore.password")
    if _is_pem(content, kind, key):
        return _certificates_in(content.decode("latin-1"), key)
    if content.startswith(JKS_MAGIC):
        store = _jks(content, password, key, "ssl.truststore.password")
        own = [certificate for entry in store.keys for certificate in entry.chain[:1]]
        return _joined([*store.trusted, *own], key)
    bundle = _pkcs12(content, password, key, "ssl.truststore.password")
    entries = [*([bundle.cert] if bundle.cert else []), *bundle.additional_certs]
    return _joined((entry.certificate for entry in entries), key)


def own_key(properties: ClientProperties) -> tuple[str, Secret] | None:
    """Return the PEM chain and the PEM private key of `ssl.keystore.*`; None if no key store is set.

    Raises ConfigError if the store cannot be read or decrypted, or does not hold exactly one key.
    """
    kind = _declared_type(properties, "ssl.keystore.type")
    if properties.get("ssl.keystore.key"):
        chain = text_of(properties, "ssl.keystore.certificate.chain")
        texts = _unfolded(chain), _unfolded(text_of(properties, "ssl.keystore.key"))
        return _pem_pair(*texts, properties, ("ssl.keystore.certificate.chain", "ssl.keystore.key"))
    key = "ssl.keystore.location"
    if not properties.get(key):
        return None
    content = _content(properties, key)
    if _is_pem(content, kind, key):
        text = content.decode("latin-1")
        return _pem_pair(text, text, properties, (key, key))
    password = _password(properties, "ssl.keystore.password")
    if content.startswith(JKS_MAGIC):
        return _jks_pair(content, password, properties, key)
    bundle = _pkcs12(content, password, key, "ssl.keystore.password")
    if bundle.key is None or bundle.cert is None:
        raise wrong(key, "holds no private key with its certificate")
    chain = _joined((entry.certificate for entry in [bundle.cert, *bundle.additional_certs]), key)
    return chain, _key_pem(bundle.key)


def _jks_pair(
    content: bytes, password: str | None, properties: ClientProperties, key: str
) -> tuple[str, Secret]:
    entries = _jks(content, password, key, "ssl.keystore.password").keys
    if len(entries) != 1:
        raise wrong(key, f"holds {len(entries)} private keys", "keep the one this client is to use")
    entry = entries[0]
    try:
        private = entry.private_key(_password(properties, "ssl.key.password") or password or "")
    except WrongPasswordError:
        raise wrong("ssl.key.password", "does not open the private key of the store") from None
    except (ValueError, UnsupportedAlgorithm):
        raise wrong(key, "holds a private key that cannot be read") from None
    return _joined(entry.chain, key), _key_pem(private)


def _pem_pair(
    chain: str, key_text: str, properties: ClientProperties, keys: tuple[str, str]
) -> tuple[str, Secret]:
    chain_key, key_key = keys
    found = _PRIVATE_KEY.search(key_text)
    if found is None:
        raise wrong(key_key, "holds no PEM private key")
    password = _password(properties, "ssl.key.password")
    encrypted = "ENCRYPTED" in found[0].split("-----")[1] or "Proc-Type: 4,ENCRYPTED" in found[0]
    if encrypted and password is None:
        raise wrong(key_key, "the private key is encrypted", "set ssl.key.password")
    try:
        # Java ignores a password that an unencrypted key does not need; cryptography refuses it.
        loaded = load_pem_private_key(
            found[0].encode(), password.encode() if encrypted and password else None
        )
    except (ValueError, TypeError, UnsupportedAlgorithm):
        reason = "does not open the private key" if encrypted else "the private key cannot be read"
        raise wrong("ssl.key.password" if encrypted else key_key, reason) from None
    return _certificates_in(chain, chain_key), _key_pem(loaded)


def _key_pem(key: object) -> Secret:
    text: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # type: ignore[attr-defined]
    return Secret(text.decode())


def _jks(content: bytes, password: str | None, key: str, password_key: str) -> JavaKeyStore:
    try:
        return read_jks(content, password)
    except WrongPasswordError:
        raise wrong(password_key, "does not open the store") from None
    except (ValueError, x509.InvalidVersion) as error:
        raise wrong(key, f"is no JKS store that can be read: {error}") from None


def _pkcs12(
    content: bytes, password: str | None, key: str, password_key: str
) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(content, password.encode() if password is not None else None)
    except UnsupportedAlgorithm:
        raise wrong(key, "uses an encryption that cannot be read here", "export it again, with AES") from None
    except (ValueError, x509.InvalidVersion) as error:
        if "password" in str(error).lower():
            raise wrong(password_key, "does not open the store" if password else "is missing") from None
        raise wrong(key, "is neither PEM, PKCS12 nor JKS") from None


def _joined(certificates: Iterable[x509.Certificate], key: str) -> str:
    text = "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)
    if not text:
        raise wrong(key, "holds no certificate")
    return text


def _certificates_in(text: str, key: str) -> str:
    try:
        return _joined(
            (x509.load_pem_x509_certificate(pem.encode()) for pem in _CERTIFICATE.findall(text)), key
        )
    except (ValueError, x509.InvalidVersion):
        raise wrong(key, "holds a PEM certificate that cannot be read") from None


def _unfolded(text: str) -> str:
    """Restore the line ends of a PEM written on one line, as properties files hold it."""
    lines = _ARMOUR.sub(lambda match: f"\n{match[1]}\n", text).strip()
    return lines if ":" in lines else re.sub(r"(?<!BEGIN)(?<!END) +(?![A-Z ]*-----)", "\n", lines)


def _is_pem(content: bytes, kind: str, key: str) -> bool:
    if b"-----BEGIN" in content:
        return True
    if kind == "PEM":
        raise wrong(key, "is declared PEM and holds none")
    return False


def _declared_type(properties: ClientProperties, key: str) -> str:
    kind = text_of(properties, key, "JKS").strip().upper()
    if kind == "JCEKS":
        raise wrong(key, "names JCEKS, which is not read here", f"convert it: {_TO_PKCS12}")
    if kind not in STORE_TYPES:
        raise wrong(key, "names a store that cannot be read here", "use PEM, PKCS12 or JKS")
    return kind


def _content(properties: ClientProperties, key: str) -> bytes:
    path = Path(text_of(properties, key))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{key}: cannot be read: {error.strerror}",
            hint="check the path and its permissions",
            key=key,
            elsewhere=True,
        ) from None
    if content.startswith(JCEKS_MAGIC):
        raise wrong(key, "is a JCEKS store, which is not read here", f"convert it: {_TO_PKCS12}")
    return content


def _password(properties: ClientProperties, key: str) -> str | None:
    value = properties.get(key)
    return reveal(value) if value is not None else None
