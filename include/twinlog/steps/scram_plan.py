"""Which SCRAM credentials declared users would get, and whose login the target would not know.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.cluster.access_values import ScramCredential
from twinlog.config.settings import FlowSettings
from twinlog.steps.metadata_plan import ChangeKind, Drift, Part, ScramChange

Users = Mapping[str, tuple[ScramCredential, ...]]


def plan_scram(flow: FlowSettings, source: Users | None, target: Users) -> Part:
    """Compare declared users with the target, and the source's with both; `source` None: it cannot be asked."""
    declared = flow.metadata.scram_users
    changes = tuple(
        ScramChange(user.name, ScramCredential(user.mechanism, user.iterations), before)
        for user in declared
        if (before := iterations(target, user.name, user.mechanism)) != user.iterations
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


def iterations(users: Users, name: str, mechanism: str) -> int | None:
    """Return how many iterations a user's credential has, None without one."""
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
