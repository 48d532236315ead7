"""The names that Kafka 4.3.1's own configuration classes define.

Sources: MirrorClientConfig.CLIENT_CONFIG_DEF, ConsumerConfig, ProducerConfig, AdminClientConfig, DistributedConfig,
SourceConnectorConfig (names only).
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    """Split a text at blanks: one name a word is easier to read and compare than hundreds of quoted strings."""
    return frozenset(text.split())


CLIENT_KEYS = _names("""
    bootstrap.servers sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class
    sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name
    sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url security.protocol
    ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol
    ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
""")
"""MM2's CLIENT set (MirrorClientConfig): the keys that reach a client from the top level or from `A.`."""

_CLIENTS_ONLY = _names("enable.metrics.push security.providers")
_CLIENTS_AND_WORKERS = _names("""
    client.dns.lookup client.id config.providers connections.max.idle.ms metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms
    retry.backoff.ms send.buffer.bytes socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms
""")
_EVERY_CLIENT = CLIENT_KEYS | _CLIENTS_ONLY | _CLIENTS_AND_WORKERS

ROLE_KEYS: dict[str, frozenset[str]] = {
    "consumer": _EVERY_CLIENT
    | _names("""
    allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs client.rack
    default.api.timeout.ms enable.auto.commit exclude.internal.topics fetch.max.bytes fetch.max.wait.ms
    fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor
    heartbeat.interval.ms interceptor.classes internal.throw.on.fetch.stable.offset.unsupported
    isolation.level key.deserializer max.partition.fetch.bytes max.poll.interval.ms max.poll.records
    partition.assignment.strategy session.timeout.ms share.acknowledgement.mode share.acquire.mode
    value.deserializer
"""),
    "producer": _EVERY_CLIENT
    | _names("""
    acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level delivery.timeout.ms enable.idempotence interceptor.classes key.serializer
    linger.ms max.block.ms max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys retries transaction.timeout.ms transaction.two.phase.commit.enable
    transactional.id value.serializer
"""),
    "admin": _EVERY_CLIENT | _names("bootstrap.controllers default.api.timeout.ms retries"),
}
"""Valid keys in `A.consumer.<key>`, `A.producer.<key>` and `A.admin.<key>`."""

_REST = _names("""
    access.control.allow.methods access.control.allow.origin admin.listeners listeners
    response.http.headers.config rest.advertised.host.name rest.advertised.listener rest.advertised.port
    rest.extension.classes ssl.client.auth
""")
WORKER_KEYS = (
    CLIENT_KEYS
    | _CLIENTS_AND_WORKERS
    | _REST
    | _names("""
    config.storage.replication.factor config.storage.topic connect.protocol
    connector.client.config.override.policy exactly.once.source.support group.id header.converter
    header.converter.plugin.version heartbeat.interval.ms inter.worker.key.generation.algorithm
    inter.worker.key.size inter.worker.key.ttl.ms inter.worker.signature.algorithm
    inter.worker.verification.algorithms key.converter key.converter.plugin.version
    offset.flush.interval.ms offset.flush.timeout.ms offset.storage.partitions
    offset.storage.replication.factor offset.storage.topic plugin.discovery plugin.path
    rebalance.timeout.ms scheduled.rebalance.max.delay.ms session.timeout.ms status.storage.partitions
    status.storage.replication.factor status.storage.topic task.shutdown.graceful.timeout.ms
    topic.creation.enable topic.tracking.allow.reset topic.tracking.enable value.converter
    value.converter.plugin.version worker.sync.timeout.ms worker.unsync.backoff.ms
""")
)
"""Valid keys in `A.<key>`, read by the Connect worker that writes to A."""

SOURCE_CONNECTOR_KEYS = _names("""
    exactly.once.support offsets.storage.topic topic.creation.groups transaction.boundary
    transaction.boundary.interval.ms
""")
"""Connect's source connector keys that are not among MM2's own: they take effect only per flow."""

DRIVER_KEYS = _REST | _names("clusters dedicated.mode.enable.internal.rest")
"""Top-level keys of the MM2 process itself."""
