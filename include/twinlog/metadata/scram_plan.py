"""Plan the SCRAM credentials of declared users, and the client quotas.  Pure.

A cluster never returns a secret.  So a changed secret can only be noticed by comparing it with the one that twinlog
last set: by a salted fingerprint in the ledger.  It is scrypt's (RFC 7914): guessing costs more there than with the
salted password of 4,096 iterations that Kafka keeps.  Users whose login the target would not know are listed.

A quota on the target that twinlog did not set is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping

from twinlog.cluster.admin.access_values import QuotaEntity, Quotas, ScramCredential
from twinlog.config.flow.metadata import DeclaredUser
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.metadata import QuotasSet, ScramSecretSet
from twinlog.metadata.values import (
    AgreedQuota,
    ChangeKind,
    Drift,
    MetadataChange,
    Part,
    QuotaChange,
    ScramChange,
    ThreeWay,
    quota_text,
    three_way,
)

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


Users = Mapping[str, tuple[ScramCredential, ...]]


def plan_scram(
    flow: FlowSettings, source: Users | None, target: Users, secrets: Iterable[ScramSecretSet] = ()
) -> Part:
    """Compare declared users with the target, and the source's users with both.

    `source` is None if it cannot be asked.  `secrets` are those that were given before: a user gets the declared
    secret once, unless it is known to be the one on the target.
    """
    declared = flow.metadata.scram_users
    remembered = {(it.user, it.mechanism): it for it in secrets}
    changes = tuple(
        change
        for user in declared
        if (change := _change(user, target, remembered.get((user.name, user.mechanism)))) is not None
    )
    known = {(user.name, user.mechanism) for user in declared}
    drift = tuple(
        _parity(flow, name, credential, there)
        for name, credentials in (source or {}).items()
        for credential in credentials
        if (name, credential.mechanism) not in known
        and (there := iterations(target, name, credential.mechanism)) != credential.iterations
    )
    return Part(changes, drift)


def _change(user: DeclaredUser, target: Users, known: ScramSecretSet | None) -> ScramChange | None:
    credential = ScramCredential(user.mechanism, user.iterations)
    before = iterations(target, user.name, user.mechanism)
    if before != user.iterations:
        return ScramChange(user.name, credential, before)
    if known is None or not is_of(known, user):
        return ScramChange(user.name, credential, before, renews=True)
    return None


def iterations(users: Users, name: str, mechanism: str) -> int | None:
    """Return the iterations of a user's credential, None if it has none."""
    found = (it.iterations for it in users.get(name, ()) if it.mechanism == mechanism)
    return next(found, None)


def _parity(flow: FlowSettings, name: str, credential: ScramCredential, there: int | None) -> Drift:
    what = "cannot log in" if there is None else "has another credential"
    return Drift(
        ChangeKind.SCRAM_USER,
        f"user {name}",
        credential.mechanism,
        f"{credential.iterations} iterations",
        None if there is None else f"{there} iterations",
        f"{what} on {flow.target.alias}; declare it in twinlog.scram.users",
    )


def plan_quotas(flow: FlowSettings, source: Quotas, target: Quotas, memory: Iterable[QuotasSet]) -> Part:
    """Compare every quota of both sides."""
    remembered = {QuotaEntity.of(record.entity): record.quotas for record in memory}
    changes: list[QuotaChange] = []
    drift: list[Drift] = []
    agreed: list[AgreedQuota] = []
    for entity in sorted({*source, *target, *remembered}, key=str):
        wanted, there, once = (side.get(entity, {}) for side in (source, target, remembered))
        for key in sorted({*wanted, *there, *once}):
            match three_way(wanted.get(key), there.get(key), once.get(key)):
                case ThreeWay.CHANGE:
                    changes.append(QuotaChange(entity, key, there.get(key), wanted.get(key)))
                case ThreeWay.KEEP if entity in source or entity in remembered:
                    drift.append(_kept(flow, entity, key, wanted.get(key), there.get(key)))
                case ThreeWay.AGREED if once.get(key) != wanted.get(key):
                    agreed.append(AgreedQuota(entity, key, wanted.get(key)))
    return Part(tuple(changes), tuple(drift), agreed=tuple(agreed))


def _kept(
    flow: FlowSettings, entity: QuotaEntity, key: str, wanted: float | None, there: float | None
) -> Drift:
    return Drift(
        ChangeKind.QUOTA,
        str(entity),
        key,
        quota_text(wanted),
        quota_text(there),
        f"set on {flow.target.alias}: kept; delete it there to follow {flow.source.alias} again",
    )
