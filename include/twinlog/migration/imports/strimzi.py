"""Read a KafkaMirrorMaker2 resource of Strimzi as the connectors that its operator would make of it.

Both forms: `clusters` and `connectCluster` (v1beta2), and `target` with a `source` in each mirror (v1).  Secrets become
references to files in a folder: the resource has only the names of Kubernetes' secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
_WORKERS = ("config.storage.", "offset.storage.", "status.storage.", "group.id")
_OF_WORKERS = ("groupId", "configStorageTopic", "statusStorageTopic")
_NO_WORKERS = "belongs to the Connect workers, and there are none"
_UNKNOWN = "is unknown"


@dataclass(frozen=True, slots=True)
class Resource:
    """The connectors of one mirror, and the topic of the target that holds their positions ("" if none does)."""

    connectors: tuple[Connector, ...]
    offset_storage_topic: str


@dataclass(slots=True)
class _Part:
    """A mapping of the resource, as far as it was not taken; `dropped` collects what has no place, with the reason."""

    file: str
    dropped: dict[str, str]
    where: str
    left: dict[str, Any] = field(default_factory=dict)

    def take(self, key: str) -> str:
        """Return a plain value, "" if there is none."""
        value = self.left.pop(key, None)
        return "" if value is None else str(value)

    def within(self, key: str, where: str = "") -> _Part:
        """Return a mapping in this one; an empty one if there is none."""
        value = self.left.pop(key, None)
        if not isinstance(value, dict | None):
            raise self.refused(f"{key} is no mapping", "export it with kubectl get -o yaml")
        return _Part(
            self.file,
            self.dropped,
            where or f"{self.where}.{key}",
            {str(k): it for k, it in (value or {}).items()},
        )

    def listed(self, key: str) -> list[_Part]:
        """Return the mappings of a list in this one."""
        value = self.left.pop(key, None) or []
        if not (isinstance(value, list) and all(isinstance(it, dict) for it in value)):
            raise self.refused(f"{key} is no list of mappings", "export it with kubectl get -o yaml")
        return [
            _Part(self.file, self.dropped, f"{self.where}.{key}[{number}]", {**it})
            for number, it in enumerate(value)
        ]

    def drop(self, key: str, why: str) -> None:
        """Take a key, and say why it has no place."""
        if self.left.pop(key, None) is not None:
            self.dropped[f"{self.where}.{key}"] = why

    def rest(self, why: str) -> None:
        """Say of all that was not taken why it has no place."""
        for key in self.left:
            self.dropped[f"{self.where}.{key}".lstrip(".")] = why

    def secret(self, key: str) -> str:
        """Return a reference to the file of a secret that is mounted; the mapping names secret and key."""
        return f"${{dir:{SECRETS}/{self.left.get('secretName', '')}:{self.left.get(key, '')}}}"

    def refused(self, what: str, hint: str) -> ConfigError:
        return ConfigError(f"{self.file}: {what}", hint=hint, file=self.file)


@dataclass(frozen=True, slots=True)
class _Mirror:
    """One mirror with the clusters that it names."""

    part: _Part
    source: _Part
    target: _Part

    @property
    def flow(self) -> str:
        return f"{self.source.where}->{self.target.where}"


def read_resource(document: Mapping[str, Any], file: str, flow: str = "") -> Resource:
    """Read the mirror of a flow; `flow` may be empty if there is only one.  Raises ConfigError."""
    top = _Part(file, {}, "", {**document})
    spec, metadata = top.within("spec", "spec"), top.within("metadata", "metadata")
    for part, known, why in (
        (top, ("apiVersion", "kind"), "is no setting"),
        (metadata, ("name", "namespace"), "belongs to Kubernetes"),
    ):
        for key in known:
            part.take(key)
        part.rest(why)
    one_target = "target" in spec.left
    if one_target:
        for key in ("clusters", "connectCluster"):
            spec.drop(key, "spec.target counts")
    target = _named(spec.within("target")) if one_target else None
    clusters = {it.where: it for it in map(_named, spec.listed("clusters"))}
    workers = spec.take("connectCluster")
    mirrors = [_mirror(it, target, clusters) for it in spec.listed("mirrors")]
    spec.rest(_NO_WORKERS)
    chosen = _chosen(top, mirrors, flow)
    for alias in clusters.keys() - {chosen.source.where, chosen.target.where}:
        top.dropped[f"spec.clusters: {alias}"] = "is no part of this flow"
    if not one_target and workers != chosen.target.where:
        top.dropped["spec.connectCluster"] = "the positions are not on the target, where twinlog looks"
    return _resource(chosen, with_workers=one_target or workers == chosen.target.where, one_target=one_target)


def _named(cluster: _Part) -> _Part:
    """Return a cluster that is called by its alias."""
    cluster.where = cluster.take("alias")
    return cluster


def _mirror(part: _Part, target: _Part | None, clusters: Mapping[str, _Part]) -> _Mirror:
    if target is not None:
        ends = _named(part.within("source")), target
    else:
        names = part.take("sourceCluster"), part.take("targetCluster")
        for name in names:
            if name not in clusters:
                raise part.refused(f"spec.clusters has no alias {name!r}", "write it there")
        ends = clusters[names[0]], clusters[names[1]]
    if not all(it.where for it in ends):
        raise part.refused("a mirror has no alias for its source or target", "write one")
    return _Mirror(part, *ends)


def _chosen(top: _Part, mirrors: list[_Mirror], flow: str) -> _Mirror:
    found = {it.flow: it for it in mirrors}
    name = flow or next(iter(found), "")
    if name not in found or (not flow and len(found) > 1):
        names = ", ".join(found) or "none"
        raise top.refused(f"the mirrors are {names}", f"choose one: --flow '{next(iter(found), 'A->B')}'")
    for it in found.values():
        if it.flow != name:
            top.dropped[it.part.where] = f"is another flow: import it by --flow '{it.flow}'"
    found[name].part.where = "mirror"
    return found[name]


def _resource(mirror: _Mirror, *, with_workers: bool, one_target: bool) -> Resource:
    """Make the connectors; `with_workers`: they work, and keep their positions, on the target."""
    part, config = mirror.part, mirror.target.within("config")
    if one_target:
        positions = mirror.target.take("offsetStorageTopic")
    else:
        positions = (config.take("offset.storage.topic") or _DEFAULT_OFFSETS) if with_workers else ""
    producer = {key: config.left.pop(key) for key in [*config.left] if key.startswith("producer.")}
    if not positions:
        config.dropped |= {f"{config.where}.{key}": _NO_WORKERS for key in producer}
        producer = {}
    shared = {
        **_cluster(mirror.source, mirror.source.within("config"), "source"),
        **_cluster(mirror.target, config, "target"),
    }
    patterns = {key: value for name, key in _PATTERNS.items() if (value := part.take(name))}
    overrides = {f"producer.override.{key.removeprefix('producer.')}": it for key, it in producer.items()}
    found = [
        _connector(part.within(name, name), f"{mirror.flow}.{kind}", kind, shared, patterns, overrides)
        for name, kind in _CONNECTORS.items()
        if part.left.get(name) is not None
    ]
    part.rest(_UNKNOWN)
    if found:
        found[0] = Connector(found[0].kind, found[0].name, found[0].properties, part.file, part.dropped)
    return Resource(tuple(found), positions)


def _cluster(cluster: _Part, config: _Part, side: str) -> dict[str, Any]:
    """Return the properties by which the connectors reach a cluster."""
    found = {"alias": cluster.where, "bootstrap.servers": cluster.left.pop("bootstrapServers", None)}
    found |= _security(cluster)
    for key in [*config.left]:
        if key.startswith(_WORKERS):
            config.drop(key, _NO_WORKERS)
    for key in _OF_WORKERS:
        cluster.drop(key, _NO_WORKERS)
    cluster.take("offsetStorageTopic")
    cluster.rest(_UNKNOWN)
    return {f"{side}.cluster.{key}": it for key, it in (found | config.left).items() if it is not None}


def _security(cluster: _Part) -> dict[str, Any]:
    encrypted = "tls" in cluster.left
    found: dict[str, Any] = _trust(cluster.within("tls")) if encrypted else {}
    login = cluster.within("authentication")
    kind, sasl = login.take("type"), False
    if kind == "tls":
        secret = login.within("certificateAndKey")
        found["ssl.keystore.certificate.chain"] = secret.secret("certificate")
        found["ssl.keystore.key"] = secret.secret("key")
        found["ssl.keystore.type"] = "PEM"
    elif kind in _LOGIN:
        sasl = True
        found["sasl.mechanism"], module = _LOGIN[kind]
        password = login.within("passwordSecret").secret("password")
        found["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required"
            f' username="{_quoted(login.take("username"))}" password="{password}";'
        )
    elif kind == "custom":
        sasl = bool(login.left.pop("sasl", False))
        found |= login.within("config").left
    elif kind or login.left:
        raise cluster.refused(
            f"authentication {kind!r} of {cluster.where} has no translation",
            "take it out of the resource, and write the client properties into the new file",
        )
    login.rest(_UNKNOWN)
    transport = "SSL" if encrypted else "PLAINTEXT"
    return {"security.protocol": f"SASL_{transport}" if sasl else transport, **found}


def _trust(tls: _Part) -> dict[str, Any]:
    references = []
    for secret in tls.listed("trustedCertificates"):
        if "certificate" in secret.left:
            references.append(secret.secret("certificate"))
        else:
            tls.dropped[secret.where] = (
                "is no single file: write each certificate into ssl.truststore.certificates"
            )
    tls.rest(_UNKNOWN)
    if not references:
        return {}
    return {"ssl.truststore.certificates": "\n".join(references), "ssl.truststore.type": "PEM"}


def _connector(
    written: _Part,
    name: str,
    kind: str,
    shared: Mapping[str, Any],
    patterns: Mapping[str, str],
    overrides: Mapping[str, Any],
) -> Connector:
    config, tasks = written.within("config"), written.left.pop("tasksMax", None)
    for key in patterns:
        config.drop(key, "a pattern of the mirror counts")
    written.rest("Connect's; `twinlog pause` and `twinlog migrate takeover` do what it did")
    own = {**(overrides if kind == SOURCE else {}), **shared, "tasks.max": tasks, **config.left, **patterns}
    for key, value in config.left.items():
        if value is None:
            config.dropped[f"{config.where}.{key}"] = "is null"
    return Connector(kind, name, {key: _text(it) for key, it in own.items() if it is not None}, written.file)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
