"""Kerberos: a real KDC, two brokers whose clients log in by GSSAPI, and what one line says when there is no login.

Costs about a minute.  Without MIT's KDC or the library gssapi it is skipped; `.ci/kerberos` brings both.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from kerberos_realm import REALM, Realm, login, missing, over_tls
from test_failback import write
from test_failover import numbers_in, steps_of
from test_home_other_names import Pair

from lab import Seen, commit_group, create_topic, cycle, produce, read
from twinlog.cli.main import main
from twinlog.cluster.api import Cluster
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, ClusterUnreachable, ConfigError
from twinlog.kafka_types import TopicPartition
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.socket.kerberos import _credentials

gssapi: Any = pytest.importorskip("gssapi", reason=missing())
pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(missing()), reason=missing())]

RECORDS = [Seen(b"%d" % n, b"v" * 40, 1_700_000_000_000 + n) for n in range(200)]


@pytest.fixture
def written(kerberos_file: Callable[..., Path]) -> Callable[..., FlowSettings]:
    """Make a flow's file, and load it."""
    return lambda *arguments, **options: load(kerberos_file(*arguments, **options)).flows["KA->KB"]


def test_records_go_from_one_kerberos_cluster_to_another(
    kerberos_clusters: Any, written: Callable[..., FlowSettings], unique_topic: Callable[[str], str]
) -> None:
    """Java's login entry with a keytab is all that a flow needs."""
    source, target = kerberos_clusters
    topic = unique_topic("orders")
    create_topic(source, topic)
    produce(source, topic, RECORDS)
    assert cycle(written(topic)).records == len(RECORDS)
    assert read(target, f"KA.{topic}") == RECORDS


def test_few_records_are_written_by_requests(
    kerberos_clusters: Any, written: Callable[..., FlowSettings], unique_topic: Callable[[str], str]
) -> None:
    """Settings, partitions, records and topics change; what is refused has the same code."""
    _, target = kerberos_clusters
    topic = unique_topic("changed")
    create_topic(target, topic)
    cluster = Cluster(written().target, written=True)
    at = TopicPartition(topic, 1)
    assert {topic: None} == dict(cluster.create_partitions({topic: 2}).require())
    cluster.produce(topic, [InternalRecord(b"k%d" % n, b"v" * 300_000, 1, n + 1) for n in range(5)])
    cluster.delete_records(at, 2)
    assert [(n, n + 1, b"k%d" % n) for n in (2, 3, 4)] == [
        (it.offset, it.timestamp, it.key) for it in cluster.read_records({at: 0}, 9)[at]
    ]
    changed = cluster.alter_topic_configs({topic: {"retention.ms": "5000", "cleanup.policy": "nonsense"}})
    assert {(topic, "retention.ms"): None} == dict(changed.found)
    assert ["INVALID_CONFIG"] == [it.data["kafka_error"] for it in changed.refused.values()]
    assert "5000" == cluster.topic_configs([topic]).require()[topic]["retention.ms"].value
    cluster.delete_topics([topic]).require()
    assert topic not in cluster.topic_names()


class OverTls(Pair):
    """A flow and its way home, between clusters that are reached by SASL_SSL; the test's own clients need no login."""

    def take(self, file: Path) -> None:
        """Work with the flows of this file, by the addresses for who logs in."""
        text = file.read_text()
        for cluster in (self.left, self.right):
            text = text.replace(cluster.bootstrap_servers, cluster.address("SASL_SSL"))
        file.write_text(text)
        super().take(file)


def test_over_home_and_a_drill(kerberos_clusters: Any, keytabs: dict[str, Path], tmp_path: Path) -> None:
    """By GSSAPI within TLS: clones join the target's groups, clients move over and home, each record once."""
    source, target = kerberos_clusters
    lines = login(keytabs["twinlog"]) | over_tls(kerberos_clusters, tmp_path)
    pair = OverTls(
        tmp_path, source, target, **{name.replace(".", "__"): value for name, value in lines.items()}
    )
    write(source, pair.topic, range(60))
    commit_group(source, pair.group, pair.topic, 5)
    pair.cycle()
    code, report = command("drill", "--config", str(pair.file))
    assert (0, "passed") == (code, report["state"]), json.dumps(report, indent=1)
    assert {(pair.group, "right", 5, 5)} == {
        (it["group"], it["found"], it["upstream_offset"], it["read_upstream"]) for it in report["groups"]
    }
    pair.fail_over()
    write(target, pair.copy, range(1000, 1020))
    home = pair.home()
    assert "following" == home.state.value, steps_of(home)
    every = [*range(60), *range(1000, 1020)]
    assert (every, every) == (numbers_in(source, pair.topic), numbers_in(target, pair.copy))


def command(*words: str) -> tuple[int, dict[str, Any]]:
    """Run one command line in this process; its exit code and JSON document."""
    out = StringIO()
    with redirect_stdout(out):
        code = main([*words, "--output", "json"])
    return code, json.loads(out.getvalue())


def line(settings: FlowSettings) -> str:
    """What a login fails with."""
    with pytest.raises((ClusterRefused, ClusterUnreachable, ConfigError)) as caught:
        Brokers(settings.source.connection).any_broker()
    return str(caught.value)


def test_what_a_login_lacks_is_one_line(
    realm: Realm, keytabs: dict[str, Path], written: Callable[..., FlowSettings], tmp_path: Path
) -> None:
    """No keytab, another realm, a principal that the keytab has not, another service, no ticket, an expired one."""
    cache = f"FILE:{tmp_path}/cache"
    by_ticket = {"useKeyTab": "false", "useTicketCache": "true", "ticketCache": cache}
    elsewhere = realm.foreign_keytab("twinlog@OTHER.TEST")
    found = [
        line(written(keyTab="/nowhere/x.keytab")),
        line(written(principal=f"other@{REALM}")),
        line(written(keyTab=str(elsewhere), principal="twinlog@OTHER.TEST")),
        line(written(service="other")),
        line(written(**by_ticket)),
    ]
    realm.run("kinit", "-l", "2s", "-k", "-t", str(keytabs["twinlog"]), "-c", cache, "twinlog")
    Brokers(written(**by_ticket).source.connection).any_broker().close()
    time.sleep(3)
    found.append(line(written(**by_ticket)))
    kinit = "get a new ticket (kinit, k5start), or use a keytab, which needs no renewal"
    assert [
        "the keytab /nowhere/x.keytab is not there, or this user may not read it; put it at this path wherever twinlog"
        " and Spark's workers run",
        f"no Kerberos login to cluster KA: {keytabs['twinlog']} holds no key of other@{REALM}; klist -k lists what it"
        " holds",
        'no Kerberos login to cluster KA: Cannot find KDC for realm "OTHER.TEST"; check principal in sasl.jaas.config,'
        " its realm above all",
        f"no Kerberos login to cluster KA: Server other/127.0.0.1@{REALM} not found in Kerberos database; check"
        " sasl.kerberos.service.name, and that brokers are addressed by the host names of their principals",
        f"no Kerberos login to cluster KA: No credentials cache found; {kinit}",
        f"no Kerberos login to cluster KA: Ticket expired; {kinit}",
    ] == found


def test_a_keytab_gets_new_tickets(
    realm: Realm,
    keytabs: dict[str, Path],
    written: Callable[..., FlowSettings],
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    """A process that lives longer than its ticket goes on logging in."""
    config = tmp_path / "krb5.conf"
    config.write_text(realm.config.read_text().replace("ticket_lifetime = 10h", "ticket_lifetime = 2s"))
    monkeypatch.setenv("KRB5_CONFIG", str(config))
    keytab = shutil.copy(
        keytabs["twinlog"], tmp_path / "a keytab of its own"
    )  # so there is no ticket for it yet
    settings = written(keyTab=str(keytab)).source.connection
    for _ in range(2):
        Brokers(settings).any_broker().close()
        assert 0 < _credentials(gssapi, settings.sasl.kerberos).lifetime < 10  # type: ignore[union-attr,arg-type]
        time.sleep(3)
