"""Read which users have SCRAM credentials (KIP-554), and give users one. A secret cannot be read back.

This uses Kafka's own requests. "All users" may be written as null or as an empty list. If the user lacks DESCRIBE on
the cluster, a broker (4.3.1) never answers the null. The client library sends the null, and then ends the whole
process (confluent-kafka 2.16.1).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence

from twinlog.cluster.admin.access_values import ScramCredential, ScramUser
from twinlog.cluster.session import Asked, refused_by
from twinlog.cluster.values import Answers
from twinlog.errors import TwinlogError
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers

MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SALT_BYTES = 32


def describe_scram_users(brokers: Brokers) -> Mapping[str, tuple[ScramCredential, ...]]:
    """Return every user with SCRAM credentials.

    Raises ClusterRefused if this user may not read them.
    """
    answer = brokers.any_broker().call(kafka_python.DESCRIBE_SCRAM, users=[])
    if answer.error_code:
        asked = Asked(brokers.settings.alias, "list", "the SCRAM users", "DESCRIBE on the cluster")
        raise refused_by(answer, asked)
    return {
        found.user: tuple(
            sorted(
                ScramCredential(MECHANISMS.get(info.mechanism, f"UNKNOWN({info.mechanism})"), info.iterations)
                for info in found.credential_infos
            )
        )
        for found in sorted(answer.results, key=lambda found: found.user)
        if not found.error_code
    }


def upsert_scram_users(brokers: Brokers, users: Sequence[ScramUser]) -> Answers[str, None]:
    """Give each user a credential with a salt of its own, in place of one of the same mechanism."""
    if not users:
        return Answers({})
    upsertion = kafka_python.ALTER_SCRAM.request.ScramCredentialUpsertion
    upsertions = []
    for user in users:
        salt = os.urandom(SALT_BYTES)
        upsertions.append(
            upsertion(
                name=user.name,
                mechanism=next(code for code, it in MECHANISMS.items() if it == user.credential.mechanism),
                iterations=user.credential.iterations,
                salt=salt,
                salted_password=salted(user, salt),
            )
        )
    answer = brokers.any_broker().call(kafka_python.ALTER_SCRAM, deletions=[], upsertions=upsertions)
    refused: dict[str, TwinlogError] = {
        result.user: refused_by(
            result,
            Asked(
                brokers.settings.alias,
                "give",
                f"user {result.user} a SCRAM credential",
                "ALTER on the cluster",
            ),
        )
        for result in answer.results
        if result.error_code
    }
    return Answers({user.name: None for user in users if user.name not in refused}, refused)


def salted(user: ScramUser, salt: bytes) -> bytes:
    """Return RFC 5802's SaltedPassword; Kafka takes the password's UTF-8 bytes as they are (ScramFormatter)."""
    return hashlib.pbkdf2_hmac(
        HASHES[user.credential.mechanism],
        user.password.reveal().encode(),
        salt,
        user.credential.iterations,
    )
