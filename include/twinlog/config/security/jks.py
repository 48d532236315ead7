"""Read Java's own kind of key store, JKS: keytool's default before Java 9, and read by every Java since.

The layout is that of sun.security.provider.JavaKeyStore (version 2), the hiding of keys that of KeyProtector:
certificates stand in the clear, a private key is combined with a chain of SHA-1 hashes over its password, and the store
ends with a hash over the store's password and all before it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from io import BytesIO

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_der_private_key

MAGIC = b"\xfe\xed\xfe\xed"
_VERSION = 2
_KEY, _TRUSTED = 1, 2
_HASH_SIZE = 20
_WHITENER = b"Mighty Aphrodite"
_SEQUENCE, _OCTETS = 0x30, 0x04
_PROTECTED_BY_SUN = bytes.fromhex("060a2b060104012a02110101")
"""The object identifier 1.3.6.1.4.1.42.2.17.1.1 in DER: KeyProtector's encryption, the only one in a JKS."""


class WrongPasswordError(Exception):
    """The password does not fit the store or the key."""


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A private key as it is stored, an EncryptedPrivateKeyInfo, and its chain, its own certificate first."""

    protected: bytes
    chain: list[x509.Certificate]

    def private_key(self, password: str) -> PrivateKeyTypes:
        """Take the key out; raises WrongPasswordError, or ValueError if it is damaged."""
        info = _inside(_inside(self.protected, _SEQUENCE)[0], _SEQUENCE)
        if not info[0].startswith(_PROTECTED_BY_SUN):
            raise ValueError("a private key is encrypted in a way that a JKS does not know")
        content, _ = _inside(info[1], _OCTETS)
        salt, hidden, check = content[:_HASH_SIZE], content[_HASH_SIZE:-_HASH_SIZE], content[-_HASH_SIZE:]
        secret = password.encode("utf-16-be")
        stream, link = b"", salt
        while len(stream) < len(hidden):
            link = hashlib.sha1(secret + link).digest()
            stream += link
        plain = bytes(byte ^ mask for byte, mask in zip(hidden, stream, strict=False))
        if hashlib.sha1(secret + plain).digest() != check:
            raise WrongPasswordError
        return load_der_private_key(plain, password=None)


@dataclass(frozen=True, slots=True)
class JavaKeyStore:
    """What a store holds, in its order."""

    keys: list[KeyEntry] = field(default_factory=list)
    trusted: list[x509.Certificate] = field(default_factory=list)


def read_jks(content: bytes, password: str | None) -> JavaKeyStore:
    """Read a store that begins with MAGIC; without a password it is not checked for damage, as in Java.

    Raises ValueError (or x509.InvalidVersion) if it is damaged or of another version, WrongPasswordError if the
    password does not fit.
    """
    source = _Source(content)
    source.take(len(MAGIC))
    if source.integer() != _VERSION:
        raise ValueError("the version of the store is not 2")
    store = JavaKeyStore()
    for _ in range(source.integer()):
        kind = source.integer()
        source.text()  # the alias
        source.take(8)  # when it was made
        if kind == _KEY:
            protected = source.block()
            store.keys.append(KeyEntry(protected, [source.certificate() for _ in range(source.integer())]))
        elif kind == _TRUSTED:
            store.trusted.append(source.certificate())
        else:
            raise ValueError("an entry is neither a key nor a certificate")
    covered = content[: source.tell()]
    check = source.take(_HASH_SIZE)
    if (
        password is not None
        and check != hashlib.sha1(password.encode("utf-16-be") + _WHITENER + covered).digest()
    ):
        raise WrongPasswordError
    return store


class _Source(BytesIO):
    """The bytes of a store, read from front to back as Java's DataInputStream does."""

    def take(self, size: int) -> bytes:
        taken = self.read(size)
        if len(taken) < size:
            raise ValueError("the store ends early")
        return taken

    def integer(self) -> int:
        return int.from_bytes(self.take(4))

    def block(self) -> bytes:
        return self.take(self.integer())

    def text(self) -> bytes:
        return self.take(int.from_bytes(self.take(2)))

    def certificate(self) -> x509.Certificate:
        if self.text() != b"X.509":
            raise ValueError("a certificate is not of X.509")
        return x509.load_der_x509_certificate(self.block())


def _inside(der: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return what is in the DER element at the front, and what follows it."""
    if len(der) < 2 or der[0] != tag:
        raise ValueError("a private key is not stored as DER")
    begin, size = 2, der[1]
    if size & 0x80:
        begin += size & 0x7F
        size = int.from_bytes(der[2:begin])
    if len(der) < begin + size:
        raise ValueError("a private key ends early")
    return der[begin : begin + size], der[begin + size :]
