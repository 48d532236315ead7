"""Read a KafkaMirrorMaker2 resource of Strimzi as the connectors that its operator would make of it.

Both forms: `clusters` and `connectCluster` (v1beta2), and `target` with a `source` in each mirror (v1).  Secrets become
references to files in a folder: the resource has only the names of Kubernetes' secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twinlog.errors import ConfigError
from twinlog.migration.imports.connectors import CHECKPOINT, HEARTBEAT, SOURCE, Connector

KIND = "KafkaMirrorMaker2"
SECRETS = "/run/secrets"
"""Where the file expects Kubernetes' secrets to be mounted, each in a folder of its name."""

_DEFAULT_OFFSETS = "mirrormaker2-cluster-offsets"
_CONNECTORS = {"sourceConnector": SOURCE, "checkpointConnector": CHECKPOINT, "heartbeatConnector": HEARTBEAT}
_PATTERNS = {
    "topicsPattern": "topics",
    "topicsBlacklistPattern": "topics.exclude",
    "topicsExcludePattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsBlacklistPattern": "groups.exclude",
    "groupsExcludePattern": "groups.exclude",
}
"""The later one of two counts, as with Strimzi: the new name after the old one."""

_LOGIN = {
    "plain": ("PLAIN", "plain.PlainLoginModule"),
    "scram-sha-256": ("SCRAM-SHA-256", "scram.ScramLoginModule"),
    "scram-sha-512": ("SCRAM-SHA-512", "scram.ScramLoginModule"),
}
_WORKERS = ("config.storage.", "offset.storage.", "status.storage.")
_NO_WORKERS = "belongs to the Connect workers, and there are none"
_READ = frozenset({"clusters", "target", "mirrors", "connectCluster"})


@dataclass(frozen=True, slots=True)
class Resource:
    """The connectors of one mirror, and the topic of the target that holds their positions ("" if none does)."""

    connectors: tuple[Connector, ...]
    offset_storage_topic: str


def read_resource(document: Mapping[str, Any], file: str, flow: str = "") -> Resource:
    """Read the mirror of a flow; `flow` may be empty if there is only one.  Raises ConfigError."""
    return _Reading(document, file).resource(flow)


class _Reading:
    """One resource that is being read, and what of it has no place in the file."""

    def __init__(self, document: Mapping[str, Any], file: str) -> None:
        self.file = file
        self.dropped: dict[str, str] = {}
        self.spec = self.mapping(document, "spec")
        for key in document.keys() - {"apiVersion", "kind", "metadata", "spec"}:
            self.dropped[key] = "is no setting"
        for key in self.mapping(document, "metadata").keys() - {"name", "namespace"}:
            self.dropped[f"metadata.{key}"] = "belongs to Kubernetes"
        for key in self.spec.keys() - _READ:
            self.dropped[f"spec.{key}"] = _NO_WORKERS
        self.clusters = {str(it.get("alias", "")): it for it in self.listed(self.spec, "clusters")}
        self.target = self.mapping(self.spec, "target")
        if self.target:
            for key in self.spec.keys() & {"clusters", "connectCluster"}:
                self.dropped[f"spec.{key}"] = "spec.target counts"
            self.clusters = {}

    def resource(self, flow: str) -> Resource:
        mirror = self.chosen(flow)
        source, target = self.ends(mirror)
        positions = self.positions(mirror, target)
        shared = {**self.cluster(source, "source"), **self.cluster(target, "target")}
        patterns = {key: str(mirror[name]) for name, key in _PATTERNS.items() if mirror.get(name) is not None}
        workers = self.producer(target, positions)
        pair = f"{source.get('alias')}->{target.get('alias')}"
        found = [
            self.connector(mirror, name, kind, pair, shared, patterns, workers)
            for name, kind in _CONNECTORS.items()
            if mirror.get(name) is not None
        ]
        for key in mirror.keys() - _CONNECTORS.keys() - _PATTERNS.keys() - self.naming():
            self.dropped[f"mirror.{key}"] = "is unknown"
        for alias in self.clusters.keys() - {source.get("alias"), target.get("alias")}:
            self.dropped[f"spec.clusters: {alias}"] = "is no part of this flow"
        if found:
            found[0] = Connector(found[0].kind, found[0].name, found[0].properties, self.file, self.dropped)
        return Resource(tuple(found), positions)

    def chosen(self, flow: str) -> Mapping[str, Any]:
        pairs = {}
        for number, mirror in enumerate(self.listed(self.spec, "mirrors")):
            source, target = self.ends(mirror)
            pairs[f"{source.get('alias')}->{target.get('alias')}"] = (number, mirror)
        if flow not in pairs and not (flow == "" and len(pairs) == 1):
            names = ", ".join(pairs) or "none"
            raise self.refused(
                f"the mirrors are {names}", f"choose one: --flow '{next(iter(pairs), 'A->B')}'"
            )
        for name, (number, _) in pairs.items():
            if name != (flow or next(iter(pairs))):
                self.dropped[f"spec.mirrors[{number}]"] = f"is another flow: import it by --flow '{name}'"
        return pairs[flow or next(iter(pairs))][1]

    def ends(self, mirror: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return source and target of a mirror."""
        if self.target:
            source, target = self.mapping(mirror, "source"), self.target
        else:
            names = str(mirror.get("sourceCluster", "")), str(mirror.get("targetCluster", ""))
            unknown = [name for name in names if name not in self.clusters]
            if unknown:
                raise self.refused(f"spec.clusters has no alias {unknown[0]!r}", "write it there")
            source, target = (self.clusters[name] for name in names)
        if not (source.get("alias") and target.get("alias")):
            raise self.refused("a mirror has no alias for its source or target", "write one")
        return source, target

    def naming(self) -> frozenset[str]:
        """Return the keys by which a mirror names its clusters."""
        return frozenset({"source"} if self.target else {"sourceCluster", "targetCluster"})

    def positions(self, mirror: Mapping[str, Any], target: Mapping[str, Any]) -> str:
        """Return the workers' offset.storage.topic, if it is on the target."""
        if self.target:
            return str(target.get("offsetStorageTopic", ""))
        if self.spec.get("connectCluster") != mirror.get("targetCluster"):
            self.dropped["spec.connectCluster"] = "the positions are not on the target, where twinlog looks"
            return ""
        return str(self.mapping(target, "config").get("offset.storage.topic", _DEFAULT_OFFSETS))

    def cluster(self, cluster: Mapping[str, Any], side: str) -> dict[str, Any]:
        """Return the properties by which the connectors reach a cluster."""
        alias, prefix = cluster["alias"], f"{side}.cluster."
        found = {"bootstrap.servers": cluster.get("bootstrapServers"), **self.security(cluster, alias)}
        for key, value in self.mapping(cluster, "config").items():
            if key.startswith(_WORKERS) or key == "group.id":
                self.dropped[f"{alias}.config.{key}"] = _NO_WORKERS
            elif not key.startswith("producer.") or side == "source":
                found[key] = value
        for key in ("groupId", "configStorageTopic", "statusStorageTopic"):
            if key in cluster:
                self.dropped[f"{alias}.{key}"] = _NO_WORKERS
        for key in cluster.keys() - _CLUSTER:
            self.dropped[f"{alias}.{key}"] = "is unknown"
        return {f"{prefix}alias": alias} | {
            f"{prefix}{key}": value for key, value in found.items() if value is not None
        }

    def producer(self, target: Mapping[str, Any], positions: str) -> dict[str, Any]:
        """Return what the workers' config says of the producers of records, if the workers belong to the target."""
        said = {
            key: value for key, value in self.mapping(target, "config").items() if key.startswith("producer.")
        }
        if not positions:
            self.dropped |= {f"{target['alias']}.config.{key}": _NO_WORKERS for key in said}
            return {}
        return {f"producer.override.{key.removeprefix('producer.')}": value for key, value in said.items()}

    def security(self, cluster: Mapping[str, Any], alias: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if "tls" in cluster:
            found |= self.trust(self.mapping(cluster, "tls"), alias)
        login = self.mapping(cluster, "authentication")
        kind = str(login.get("type", ""))
        sasl = False
        if kind == "tls":
            secret = self.mapping(login, "certificateAndKey")
            found["ssl.keystore.certificate.chain"] = _reference(secret, "certificate")
            found["ssl.keystore.key"] = _reference(secret, "key")
            found["ssl.keystore.type"] = "PEM"
            read = {"type", "certificateAndKey"}
        elif kind in _LOGIN:
            sasl = True
            mechanism, module = _LOGIN[kind]
            password = _reference(self.mapping(login, "passwordSecret"), "password")
            found["sasl.mechanism"] = mechanism
            found["sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.{module} required"
                f' username="{_quoted(login.get("username", ""))}" password="{password}";'
            )
            read = {"type", "username", "passwordSecret"}
        elif kind == "custom":
            sasl = bool(login.get("sasl"))
            found |= self.mapping(login, "config")
            read = {"type", "sasl", "config"}
        elif login:
            raise self.refused(
                f"authentication {kind!r} of {alias} has no translation",
                "take it out of the resource, and write the client properties into the new file",
            )
        else:
            read = set()
        for key in login.keys() - read:
            self.dropped[f"{alias}.authentication.{key}"] = "is unknown"
        transport = "SSL" if "tls" in cluster else "PLAINTEXT"
        return {"security.protocol": f"SASL_{transport}" if sasl else transport, **found}

    def trust(self, tls: Mapping[str, Any], alias: str) -> dict[str, Any]:
        references = []
        for number, secret in enumerate(self.listed(tls, "trustedCertificates")):
            if "certificate" in secret:
                references.append(_reference(secret, "certificate"))
            else:
                self.dropped[f"{alias}.tls.trustedCertificates[{number}]"] = (
                    "is no single file: write each certificate into ssl.truststore.certificates"
                )
        for key in tls.keys() - {"trustedCertificates"}:
            self.dropped[f"{alias}.tls.{key}"] = "is unknown"
        if not references:
            return {}
        return {"ssl.truststore.certificates": "\n".join(references), "ssl.truststore.type": "PEM"}

    def connector(
        self,
        mirror: Mapping[str, Any],
        name: str,
        kind: str,
        pair: str,
        shared: Mapping[str, Any],
        patterns: Mapping[str, str],
        workers: Mapping[str, Any],
    ) -> Connector:
        written = self.mapping(mirror, name)
        config = self.mapping(written, "config")
        for key in config.keys() & patterns.keys():
            self.dropped[f"{name}.config.{key}"] = "a pattern of the mirror counts"
        for key in written.keys() - {"config", "tasksMax"}:
            self.dropped[f"{name}.{key}"] = (
                "Connect's; `twinlog pause` and `twinlog migrate takeover` do what it did"
            )
        tasks = {"tasks.max": written["tasksMax"]} if "tasksMax" in written else {}
        own = workers if kind == SOURCE else {}
        properties = {**own, **shared, **tasks, **config, **patterns}
        for key, value in properties.items():
            if value is None:
                self.dropped[f"{name}.config.{key}"] = "is null"
        return Connector(
            kind,
            f"{pair}.{kind}",
            {key: _text(value) for key, value in properties.items() if value is not None},
            self.file,
        )

    def mapping(self, where: Mapping[str, Any], key: str) -> dict[str, Any]:
        value = where.get(key)
        if not isinstance(value, dict | None):
            raise self.refused(f"{key} is no mapping", "export it with kubectl get -o yaml")
        return {str(name): it for name, it in (value or {}).items()}

    def listed(self, where: Mapping[str, Any], key: str) -> Iterator[dict[str, Any]]:
        value = where.get(key) or []
        if not (isinstance(value, list) and all(isinstance(it, dict) for it in value)):
            raise self.refused(f"{key} is no list of mappings", "export it with kubectl get -o yaml")
        yield from value

    def refused(self, what: str, hint: str) -> ConfigError:
        return ConfigError(f"{self.file}: {what}", hint=hint, file=self.file)


_CLUSTER = frozenset({
    *("alias", "bootstrapServers", "tls", "authentication", "config"),
    *("groupId", "configStorageTopic", "statusStorageTopic", "offsetStorageTopic"),
})


def _reference(secret: Mapping[str, Any], field: str) -> str:
    return f"${{dir:{SECRETS}/{secret.get('secretName', '')}:{secret.get(field, '')}}}"


def _quoted(value: Any) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"')


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
