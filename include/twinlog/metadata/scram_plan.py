"""Plan the SCRAM credentials of declared users, and list users whose login the target would not know.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinlog.cluster.admin.access_values import ScramCredential
from twinlog.config.flow.metadata import DeclaredUser
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.metadata import ScramSecretSet
from twinlog.metadata.scram_secrets import is_of
from twinlog.metadata.values import ChangeKind, Drift, Part, ScramChange

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
