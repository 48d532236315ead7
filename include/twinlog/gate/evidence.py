"""Evidence of a gate: the findings, the configuration and the versions, signed against later changes.

    {"format": "twinlog-evidence", "version": 1,
     "payload": {...}, "signature": {"algorithm": "Ed25519", "key_sha256": hex, "value": base64} or null}

The signature covers the bytes of `payload` in canonical form (RFC 8785): UTF-8 JSON without blanks, keys of every
object sorted, numbers as ECMAScript writes them.  All numbers of a payload are integers or have at most three
decimals. `key_sha256` is the digest of the public key's 32 raw bytes.  docs/gate.md describes the same for other
verifiers, and a test verifies with one of those.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from twinlog import __version__
from twinlog.clock import iso
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.errors import ConfigError, FormatError, TerminalError
from twinlog.jsonable import Json, from_json
from twinlog.judge.data_docs import reports_root

FORMAT = "twinlog-evidence"
VERSION = 1
ALGORITHM = "Ed25519"
DECIMALS = 3
OWN_KEY, OWN_PUBLIC_KEY = "evidence-key.pem", "evidence-key.pub.pem"
PACKAGES = ("great-expectations", "confluent-kafka", "cryptography")


@dataclass(frozen=True, slots=True)
class Verified:
    """The content of evidence whose signature is good; `key_sha256` names the key that signed it.

    `ready` says that the gate was ready, that a failover's target was promoted, that clients are home again after a way
    home (not after a mere save), or that a drill has passed.
    """

    flow: str
    mode: str
    ready: bool
    at: str
    configuration_sha256: str
    key_sha256: str


@dataclass(frozen=True, slots=True)
class Seal:
    """Hold what all evidence of one command has: the configuration file (its name, its digest), and the key that signs.

    Without a key evidence is not signed.
    """

    file: str
    sha256: str
    key: Ed25519PrivateKey | None = None

    @classmethod
    def of(
        cls, configuration: Configuration, flow: FlowSettings | None = None, sign_with: Path | None = None
    ) -> Seal:
        """Read the key that signs evidence of the flow: the operator's, else one that is made beside the reports.

        Without a flow (a dry run) nothing is signed.  Raises ConfigError for a file without a key.
        """
        key = None
        if flow is not None:
            named = sign_with or flow.gate.sign_with
            key = read_private_key(named) if named is not None else own_key(reports_root(flow))
        return cls(configuration.path.name, configuration.sha256, key)

    @property
    def signed_by(self) -> str:
        """Return the digest of the key, "" without one."""
        return key_digest(self.key.public_key()) if self.key is not None else ""

    def document(self, at_ms: int, **found: Any) -> str:
        """Write an evidence file: `found` is the gate's answer (`gate`) or what a run did (`recovery`), as JSON."""
        payload: Json = plain({
            "made_at": iso(at_ms),
            "configuration": {"file": self.file, "sha256": self.sha256},
            "versions": versions(),
            **found,
        })
        return document_of(payload, self.key)


_DONE = {"failback": "following", "drill": "passed"}
"""The state of a run that has reached its end, by its mode; of a failover it is another."""


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of the software that judged, which stay while it runs."""
    known = {"twinlog": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):  # a failover needs no Great Expectations
            known[name] = version(name)
    return known


def plain(value: Any) -> Any:
    """Round numbers to what evidence may hold: integers, or at most three decimals."""
    if isinstance(value, float):
        rounded = round(value, DECIMALS)
        return int(rounded) if rounded.is_integer() else rounded
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def canonical(payload: Json) -> bytes:
    """Encode a payload as the bytes that are signed."""
    return json.dumps(
        payload, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    ).encode()


def document_of(payload: Json, key: Ed25519PrivateKey | None) -> str:
    """Write the evidence file; it is signed if there is a key."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "payload": payload,
        "signature": {
            "algorithm": ALGORITHM,
            "key_sha256": key_digest(key.public_key()),
            "value": base64.b64encode(key.sign(canonical(payload))).decode(),
        }
        if key is not None
        else None,
    }
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def key_digest(key: Ed25519PublicKey) -> str:
    """Return the digest that names a public key."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


def verify(text: str, key: Ed25519PublicKey) -> Verified:
    """Check a file's form, version, algorithm, key and signature, in this order, and return its content.

    Raises FormatError if the file is not evidence, and TerminalError `evidence` if it is not signed, was signed by
    another key, or was changed after it was signed.
    """
    document = _parsed(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError("this is no evidence of twinlog", "give the file that `twinlog gate` wrote")
    if document.get("version") != VERSION:
        raise FormatError(f"evidence has version {document.get('version')}; only version {VERSION} is known")
    payload, signature = document.get("payload"), document.get("signature")
    if not isinstance(payload, dict):
        raise FormatError("evidence has no payload")
    _check_signature(payload, signature, key)
    try:
        answer = payload["gate"] if "gate" in payload else payload["recovery"]
        return Verified(
            answer["flow"],
            answer["mode"],
            answer["ready"]
            if "gate" in payload
            else answer["state"] == _DONE.get(answer["mode"], "promoted"),
            payload["made_at"],
            payload["configuration"]["sha256"],
            key_digest(key),
        )
    except (KeyError, TypeError):
        raise FormatError("the evidence is signed, and holds neither a gate's answer nor a run") from None


def _check_signature(payload: Json, signature: Any, key: Ed25519PublicKey) -> None:
    if signature is None:
        raise _untrusted(
            "the evidence is not signed", "the signature was removed, or twinlog 0.2 wrote it without a key"
        )
    if not isinstance(signature, dict) or signature.get("algorithm") != ALGORITHM:
        raise FormatError(f"the evidence's signature is not by {ALGORITHM}")
    if signature.get("key_sha256") != key_digest(key):
        raise _untrusted(
            f"the evidence was signed by another key ({signature.get('key_sha256')}),"
            f" not by the one given ({key_digest(key)})",
            "give the public key of --sign-with, or evidence-key.pub.pem beside the reports",
        )
    try:
        key.verify(base64.b64decode(signature["value"], validate=True), canonical(payload))
    except (InvalidSignature, KeyError, TypeError, ValueError):
        raise _untrusted(
            "the evidence was changed after it was signed", "trust nothing in it; get the original file"
        ) from None


def _untrusted(message: str, hint: str) -> TerminalError:
    return TerminalError(message, hint, code="evidence")


def _parsed(text: str) -> Any:
    try:
        return from_json(text, object_pairs_hook=_without_twice)
    except ValueError as error:
        raise FormatError(f"evidence is not JSON: {error}") from None


def _without_twice(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object with the same key twice: one reader would take the first value, another the last."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read the private key that signs.  Raises ConfigError if the file does not hold one."""
    key = _loaded(path, partial(load_pem_private_key, password=None))
    if not isinstance(key, Ed25519PrivateKey):
        raise _no_key(path, "private", "openssl genpkey -algorithm ed25519 -out key.pem")
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Read the public key that verifies.  Raises ConfigError if the file does not hold one."""
    key = _loaded(path, load_pem_public_key)
    if not isinstance(key, Ed25519PublicKey):
        raise _no_key(path, "public", "openssl pkey -in key.pem -pubout -out pub.pem")
    return key


def _loaded(path: Path, load: Callable[[bytes], object]) -> object:
    try:
        return load(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", file=str(path)) from None
    except TypeError:
        raise ConfigError(f"{path}: the key is encrypted", "give one without a passphrase") from None
    except (ValueError, UnsupportedAlgorithm):
        return None


def _no_key(path: Path, which: str, command: str) -> ConfigError:
    return ConfigError(f"{path} is no {which} Ed25519 key in PEM", f"make one: {command}", file=str(path))


def own_key(folder: Path) -> Ed25519PrivateKey | None:
    """Return the key that signs if the operator has none; make it at first use, its public half beside it.

    Only this user can read it.  None if the folder cannot be written to: then evidence cannot be kept either.
    """
    path = folder / OWN_KEY
    try:
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            new = Ed25519PrivateKey.generate()
            private = new.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            with NamedTemporaryFile(dir=folder, prefix=".evidence-") as file:  # 0600
                file.write(private)
                file.flush()
                with suppress(FileExistsError):  # another process was first
                    os.link(file.name, path)
        key = read_private_key(path)
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (folder / OWN_PUBLIC_KEY).write_bytes(public)
    except OSError:
        return None
    return key
