"""Turn one direction of an Amazon MSK Replicator into an mm2.properties.

Reads the JSON of `aws kafka describe-replicator` and the request of `create-replicator`, by their public reference (MSK
API, V1 Replicators).  It knows clusters by ARN and logins by name of a secret: addresses and passwords are written as
references to environment variables.  Where it stands nobody outside can read, so the flow is written switched off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from twinlog.errors import ConfigError
from twinlog.migration.imports.connectors import EquivalentFile, LeftOut, as_text
from twinlog.migration.imports.mirror_maker_1 import IDENTITY, named_clusters

DIRECTIONS: Final = "replicationInfoList"
_OWNER: Final = "MSK Replicator"
_IAM: Final = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}
_SCRAM: Final = {"SHA256": "SCRAM-SHA-256", "SHA512": "SCRAM-SHA-512"}
_SWITCHES: Final = {
    "topicReplication.copyTopicConfigurations": "sync.topic.configs.enabled",
    "topicReplication.copyAccessControlListsForTopics": "sync.topic.acls.enabled",
    "topicReplication.detectAndCopyNewTopics": "refresh.topics.enabled",
    "consumerGroupReplication.synchroniseConsumerGroupOffsets": "sync.group.offsets.enabled",
}
"""All are on where the request leaves them out, also that of offsets, which is off in MM2."""

_PATTERNS: Final = {
    "topicReplication.topicsToReplicate": "topics",
    "topicReplication.topicsToExclude": "topics.exclude",
    "consumerGroupReplication.consumerGroupsToReplicate": "groups",
    "consumerGroupReplication.consumerGroupsToExclude": "groups.exclude",
}
_ALWAYS_EXCLUDED: Final = {"topics.exclude": (r"__.*", r"mm2.*\.internal"), "groups.exclude": ()}
_NAMES: Final = "topicReplication.topicNameConfiguration.type"
_SIDES: Final = ("sourceKafkaCluster", "targetKafkaCluster")
_REFERENCES: Final = ("Arn", "Id", "Alias")
_LEFT_OUT: Final = {
    "topicReplication.startingPosition.type": (
        "twinlog begins at the first record that the source holds; see twinlog.start"
    ),
    "targetCompressionType": "batches keep the codec that they have",
    "consumerGroupReplication.detectAndCopyNewConsumerGroups": "each cycle reads the groups that there are",
    "consumerGroupReplication.consumerGroupOffsetSyncMode": "each group is placed by the exact map of offsets",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """One end of a direction: its alias, the lines by which clients reach it, and what a person has to supply."""

    alias: str
    lines: Mapping[str, str]
    supply: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Read:
    """The file, and for each environment variable that it refers to where its value is found."""

    file: EquivalentFile
    supply: tuple[str, ...]


def described(document: Any) -> dict[str, Any] | None:
    """Return the description with keys as the API's reference writes them; None if it is none of MSK Replicator's."""
    found = _camel(document)
    return found if isinstance(found, dict) and isinstance(found.get(DIRECTIONS), list) else None


def equivalent_of(file: str, replicator: Mapping[str, Any], flow: str) -> Read:
    """Return the file of one direction; `flow` names its clusters, or chooses by the aliases that MSK has given.

    Raises ConfigError for a direction that is not one, names it cannot give, and logins that have no equal.
    """
    direction = _direction(file, replicator, flow)
    source, target = named_clusters(flow or "->".join(_aliases(direction)), _OWNER)
    flow = f"{source}->{target}"
    _require_prefix(file, direction, source)
    ends = [
        _cluster(file, replicator, direction, side, alias)
        for side, alias in zip(_SIDES, (source, target), strict=True)
    ]
    lines = {"clusters": f"{source}, {target}"}
    for end in ends:
        lines |= {f"{end.alias}.{key}": value for key, value in end.lines.items()}
    lines[f"{flow}.enabled"] = "false"
    lines |= {f"{flow}.{key}": value for key, value in _settings(file, direction).items()}
    lines[f"{target}->{source}.emit.heartbeats.enabled"] = "false"
    beside = ((key, "is no setting") for key in replicator if key not in {DIRECTIONS, "kafkaClusters"})
    left_out = [*_without_equal(direction), *(it for end in ends for it in end.left_out), *beside]
    made = EquivalentFile(as_text(lines), tuple(LeftOut(file, _OWNER, key, why) for key, why in left_out))
    return Read(made, tuple(it for end in ends for it in end.supply))


def _camel(value: Any) -> Any:
    """Return the same with keys in lower camel case: the CLI writes them in upper, the API's reference in lower."""
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: _camel(it) for key, it in value.items()}
    return [_camel(it) for it in value] if isinstance(value, list) else value


def _aliases(direction: Mapping[str, Any]) -> tuple[str, str]:
    source, target = (str(direction.get(f"{side}Alias", "")) for side in _SIDES)
    return source, target


def _direction(file: str, replicator: Mapping[str, Any], flow: str) -> dict[str, Any]:
    """Return the only direction, or the one that is named by the aliases of its clusters, its lists and values flat."""
    found = [_flat(it) for it in replicator[DIRECTIONS] if isinstance(it, dict)]
    named = [it for it in found if "->".join(_aliases(it)) == flow]
    if len(found) != 1 and len(named) != 1:
        names = ", ".join("->".join(_aliases(it)) for it in found) or "none"
        raise ConfigError(
            f"{file}: its directions are {names}",
            hint="choose one by --flow, as aws kafka describe-replicator names it",
            file=file,
        )
    return (named or found)[0]


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, it in value.items():
        flat |= _flat(it, f"{prefix}{key}.") if isinstance(it, dict) else {f"{prefix}{key}": it}
    return flat


def _require_prefix(file: str, direction: Mapping[str, Any], source: str) -> None:
    """Refuse a name for the source that is not the one before the names of its copies."""
    alias = _aliases(direction)[0]
    if _is_prefixed(direction) and alias and alias != source:
        raise ConfigError(
            f"{file}: its copies are named {alias}.TOPIC, so the source's alias is {alias} and not {source}",
            hint="leave --flow out, or begin it with that alias",
            file=file,
        )


def _is_prefixed(direction: Mapping[str, Any]) -> bool:
    return str(direction.get(_NAMES)) != "IDENTICAL"


def _settings(file: str, direction: Mapping[str, Any]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for key, ours in _PATTERNS.items():
        if (patterns := direction.get(key)) or key.endswith("ToReplicate"):
            settings[ours] = ",".join((*_patterns(file, key, patterns), *_ALWAYS_EXCLUDED.get(ours, ())))
    if not _is_prefixed(direction):
        settings["replication.policy.class"] = IDENTITY
    for key, ours in _SWITCHES.items():
        settings[ours] = "false" if direction.get(key) is False else "true"
    return settings


def _patterns(file: str, key: str, patterns: Any) -> Iterator[str]:
    if not (isinstance(patterns, list) and patterns and all(isinstance(it, str) for it in patterns)):
        raise ConfigError(f"{file}: {key} is no list of patterns", file=file, key=key)
    for pattern in patterns:
        if "," in pattern:
            raise ConfigError(
                f"{file}: {key}: {pattern} has a comma, which divides patterns in an mm2.properties",
                hint="write it as several patterns without a comma",
                file=file,
                key=key,
            )
        yield pattern


def _without_equal(direction: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    read = {*_PATTERNS, *_SWITCHES, _NAMES, *(f"{side}{it}" for side in _SIDES for it in _REFERENCES)}
    for key in (it for it in direction if it not in read):
        yield key, _LEFT_OUT.get(key, "is MSK Replicator's own, and twinlog has nothing like it")


def _cluster(
    file: str, replicator: Mapping[str, Any], direction: Mapping[str, Any], side: str, alias: str
) -> Cluster:
    """Return one end: by the ARN, id or alias that the direction has for it."""
    known = {str(direction[f"{side}{it}"]) for it in _REFERENCES if f"{side}{it}" in direction}
    listed = replicator.get("kafkaClusters")
    clusters = [_flat(it) for it in (listed if isinstance(listed, list) else ()) if isinstance(it, dict)]
    names = ("amazonMskCluster.mskClusterArn", "apacheKafkaCluster.apacheKafkaClusterId", "kafkaClusterAlias")
    found = [it for it in clusters if known & {str(it[name]) for name in names if name in it}]
    if len(found) != 1:
        raise ConfigError(
            f"{file}: kafkaClusters has no entry for {', '.join(sorted(known)) or side}",
            hint="take the whole answer of aws kafka describe-replicator --replicator-arn ARN",
            file=file,
        )
    (cluster,) = found
    variable = re.sub(r"\W", "_", alias).upper()
    if arn := cluster.get("amazonMskCluster.mskClusterArn"):
        lines, supply = _of_msk(str(arn), variable)
    else:
        lines, supply = _of_kafka(file, cluster, variable)
    return Cluster(alias, lines, supply, tuple(_cluster_without_equal(cluster, alias)))


def _of_msk(arn: str, variable: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """MSK Replicator logs in to clusters of MSK by IAM."""
    name = f"{variable}_BOOTSTRAP_SERVERS"
    supply = (
        f"set {name} to BootstrapBrokerStringSaslIam of `aws kafka get-bootstrap-brokers --cluster-arn {arn}`"
    )
    return {"bootstrap.servers": f"${{env:{name}}}", **_IAM}, (supply,)


def _of_kafka(file: str, cluster: Mapping[str, Any], variable: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """A cluster of one's own: its addresses stand in the description, its password in AWS Secrets Manager."""
    address = str(cluster.get("apacheKafkaCluster.bootstrapBrokerString", ""))
    encrypted = cluster.get("encryptionInTransit.encryptionType") == "TLS"
    login = {key for key in cluster if key.startswith("clientAuthentication.")}
    mechanism = _SCRAM.get(str(cluster.get("clientAuthentication.saslScram.mechanism")))
    if not address or (login and mechanism is None):
        what = f"{min(login)} has no translation" if address else "a cluster has neither ARN nor addresses"
        raise ConfigError(f"{file}: {what}", hint="write this cluster's lines by hand", file=file)
    transport = "SSL" if encrypted else "PLAINTEXT"
    if mechanism is None:
        return {"bootstrap.servers": address, "security.protocol": transport}, ()
    user, password = f"{variable}_USERNAME", f"{variable}_PASSWORD"
    secret = cluster.get("clientAuthentication.saslScram.secretArn", "its secret")
    return {
        "bootstrap.servers": address,
        "security.protocol": f"SASL_{transport}",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        f' username="${{env:{user}}}" password="${{env:{password}}}";',
    }, (f"set {user} and {password} to what AWS Secrets Manager holds for {secret}",)


def _cluster_without_equal(cluster: Mapping[str, Any], alias: str) -> Iterator[tuple[str, str]]:
    for key in cluster:
        if key.startswith("vpcConfig."):
            yield f"{alias}.{key}", "twinlog runs in a network of yours that reaches both clusters"
        elif key == "encryptionInTransit.rootCaCertificate":
            yield f"{alias}.{key}", "write that certificate into ssl.truststore.certificates"
        elif not key.startswith((
            "amazonMskCluster.mskClusterArn",
            "apacheKafkaCluster.",
            "clientAuthentication.",
            "encryptionInTransit.encryptionType",
            "kafkaClusterAlias",
        )):
            yield f"{alias}.{key}", "is MSK Replicator's own, and twinlog has nothing like it"
