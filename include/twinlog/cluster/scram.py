"""SCRAM credentials (KIP-554): which users have one, and giving users one.  A secret cannot be read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import admin as kafka_admin

from twinlog.cluster.access_values import ScramCredential, ScramUser
from twinlog.cluster.refusals import Asked
from twinlog.cluster.session import REQUEST_SECONDS, Session
from twinlog.cluster.values import Answers


def describe_scram_users(session: Session) -> Mapping[str, tuple[ScramCredential, ...]]:
    """Return every user with SCRAM credentials.  Raises ClusterRefused when this user may not read them."""
    future = session.admin.describe_user_scram_credentials(request_timeout=REQUEST_SECONDS)
    asked = Asked(session.alias, "list", "the SCRAM users", "DESCRIBE on the cluster")
    return {
        name: tuple(
            sorted(
                ScramCredential(spelled(info.mechanism), info.iterations)
                for info in found.scram_credential_infos
            )
        )
        for name, found in sorted(session.answer(future, asked).items())
    }


def upsert_scram_users(session: Session, users: Sequence[ScramUser]) -> Answers[str, None]:
    """Give each user a credential with a salt of its own, in place of one of the same mechanism."""
    if not users:
        return Answers({})
    futures = session.admin.alter_user_scram_credentials(
        [
            kafka_admin.UserScramCredentialUpsertion(
                user.name,
                kafka_admin.ScramCredentialInfo(
                    kafka_admin.ScramMechanism[user.credential.mechanism.replace("-", "_")],
                    user.credential.iterations,
                ),
                user.password.reveal().encode(),
            )
            for user in users
        ],
        request_timeout=REQUEST_SECONDS,
    )
    return session.answers(
        futures,
        lambda name: Asked(session.alias, "give", f"user {name} a SCRAM credential", "ALTER on the cluster"),
    )


def spelled(mechanism: kafka_admin.ScramMechanism) -> str:
    """Spell a mechanism as SASL does: `SCRAM-SHA-512`."""
    return str(mechanism.name).replace("_", "-")
