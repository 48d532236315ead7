"""Remember which secrets declared users were last given without keeping one: salted fingerprints in the ledger.

A cluster never returns a secret.  So a changed secret can only be noticed by comparing it with the one that twinlog
last set.  The fingerprint is scrypt's (RFC 7914) with a salt of its own: guessing costs more there than with the
salted password of 4,096 iterations that Kafka keeps.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable

from twinlog.config.flow.metadata import DeclaredUser
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.metadata import ScramSecretSet
from twinlog.metadata.values import MetadataChange, ScramChange

_SALT_BYTES = 16
_COST = 2**14
"""scrypt's n; with its usual r of 8, about 50 ms and 16 MB for each user of a plan."""


def is_of(known: ScramSecretSet, user: DeclaredUser) -> bool:
    """Say whether a fingerprint belongs to the secret that is declared now."""
    return hmac.compare_digest(known.print, _print(user, b64decode(known.salt)))


def given(flow: FlowSettings, made: Iterable[MetadataChange], at_ms: int) -> tuple[ScramSecretSet, ...]:
    """Return the fingerprints to remember of the secrets that users were given."""
    declared = {(user.name, user.mechanism): user for user in flow.metadata.scram_users}
    return tuple(
        _record(declared[it.user, it.credential.mechanism], secrets.token_bytes(_SALT_BYTES), at_ms)
        for it in made
        if isinstance(it, ScramChange)
    )


def undeclared(flow: FlowSettings, known: Iterable[ScramSecretSet]) -> tuple[ScramSecretSet, ...]:
    """Return the fingerprints to forget: those of users that are no longer declared."""
    declared = {(user.name, user.mechanism) for user in flow.metadata.scram_users}
    return tuple(it for it in known if (it.user, it.mechanism) not in declared)


def _record(user: DeclaredUser, salt: bytes, at_ms: int) -> ScramSecretSet:
    return ScramSecretSet(user.name, user.mechanism, b64encode(salt).decode(), _print(user, salt), at_ms)


def _print(user: DeclaredUser, salt: bytes) -> str:
    secret = user.password.reveal().encode()
    return b64encode(hashlib.scrypt(secret, salt=salt, n=_COST, r=8, p=1, dklen=32)).decode()
