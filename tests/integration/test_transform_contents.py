"""Record rules on real brokers: copied, mapped, audited, changed, and what stops a partition."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_audit import FULL, audited, found, write_anew

from lab import Seen, create_topic, cycle, flow_of, produce, produce_transaction, read, read_with_offsets
from twinlog.cluster.api import open_clusters
from twinlog.formats.ledger.audit import DifferenceKind as Kind
from twinlog.monitoring import status
from twinlog.offsets.offset_map import Translation
from twinlog.state.progress import read_maps

NOW = int(time.time() * 1000)
SECRET = "a key of more than sixteen characters"
RULES = "A->B__twinlog__transform__rules__"


@pytest.fixture(autouse=True)
def hash_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is known by reference only."""
    monkeypatch.setenv("HASH_KEY", SECRET)


def hashed(text: str, secret: str = SECRET) -> str:
    """Return what a hashed field holds."""
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def customer(number: int) -> Seen:
    """Every fourth key is a test's, every fifth value one of a demo, every seventh a tombstone."""
    document = {
        "id": number,
        "kind": "demo" if number % 5 == 0 else "real",
        "card": {"number": f"4111-{number:04}", "expires": "2027"},
        "emails": [{"address": f"{number}@example.com"}, {"address": "ü@example.com"}],
    }
    value = None if number % 7 == 0 else json.dumps(document, indent=number % 3 or None).encode()
    return Seen(
        b"%s-%d" % (b"test" if number % 4 == 0 else b"live", number), value, NOW + number, (("h", b"1"),)
    )


def left_of(record: Seen, secret: str = SECRET) -> Seen | None:
    """Return what the rules of `with_rules` leave of a record: built from its document, not from its text."""
    if record.key.startswith(b"test-"):
        return None
    if record.value is None:
        return record
    document = json.loads(record.value)
    if document["kind"] == "demo":
        return None
    indent = document["id"] % 3 or None
    document["id"] = hashed(str(document["id"]), secret)
    document["card"]["number"] = ""
    for each in document["emails"]:
        each["address"] = ""
    return dataclasses.replace(record, value=json.dumps(document, indent=indent).encode())


def with_rules(topic: str, **more: str) -> dict[str, str]:
    """Return the lines of a file with rules for one topic."""
    return {
        f"{RULES}test__topics": topic,
        f"{RULES}test__drop__if__key__matches": "test-.*",
        f"{RULES}pii__topics": topic,
        f"{RULES}pii__drop__if__field": "kind=demo",
        f"{RULES}pii__mask": "card.number, emails.address",
        f"{RULES}pii__hash": "id",
        f"{RULES}pii__hash__key": "${env:HASH_KEY}",
        **more,
    }


def test_a_copy_through_rules_is_mapped_and_audited_and_a_changed_byte_is_found(
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dropped records are gaps, a topic without rules stays as it is, and another key is another chain."""
    topic, plain = (create_topic(cluster_a, unique_topic(it)) for it in ("customers", "plain"))
    records = [customer(n) for n in range(1, 400)]
    produce(cluster_a, topic, records[:200], compression_type="lz4")
    produce_transaction(cluster_a, topic, records[:9], commit=False)
    produce(cluster_a, topic, records[200:], linger_ms=0)
    produce(cluster_a, plain, records)
    lines = with_rules(topic)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic, plain], **lines)
    assert ["done", "nothing"] == [cycle(flow).state for _ in range(2)]
    expected = [it for record in records if (it := left_of(record)) is not None]
    assert expected == read(cluster_b, f"A.{topic}")
    assert records == read(cluster_b, f"A.{plain}")
    with open_clusters(flow) as clusters:
        (offset_map,) = [it for life, it in read_maps(flow, clusters.target).items() if life.topic == topic]
        upstream = [offset for offset, it in read_with_offsets(cluster_a, topic) if left_of(it) is not None]
        downstream = [offset for offset, _ in read_with_offsets(cluster_b, f"A.{topic}")]
        assert 0 == status.run(flow, clusters).lag_records
    assert [Translation(it, True, False) for it in downstream] == [
        offset_map.translate(it) for it in upstream
    ]
    good = audited(flow)
    assert (True, True, len(expected) + len(records)) == (good.equal, good.proved, good.records)

    monkeypatch.setenv("HASH_KEY", "another key of sixteen characters")
    other = audited(flow_of(tmp_path, cluster_a, cluster_b, [topic, plain], **lines), FULL)
    unproved = [(it.reason, it.records) for it in other.unproved]
    assert (0, [("other-chain", len(expected))]) == (other.difference_count, unproved)
    monkeypatch.setenv("HASH_KEY", SECRET)

    at = next(n for n, it in enumerate(expected) if it.value is not None and n > 50)
    damaged = dataclasses.replace(expected[at], value=expected[at].value.replace(b"2027", b"2028"))
    write_anew(cluster_b, f"A.{topic}", [*expected[:at], damaged, *expected[at + 1 :]])
    places = {at: upstream[at]}
    assert [(Kind.VALUE, places[at], at)] == found(audited(flow, FULL))


def test_what_cannot_be_transformed_stops_its_partition_and_no_other(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A value that is no JSON: one line with the offset; with a remedy copying goes on."""
    topic = create_topic(cluster_a, unique_topic("rules"), partitions=2)
    for partition in (0, 1):
        produce(cluster_a, topic, [Seen(b"k", b"%d" % n, NOW + n) for n in range(5)], partition)
    produce(cluster_a, topic, [Seen(b"k", b"no json", NOW)], 1)
    lines = {f"{RULES}a__topics": topic, f"{RULES}a__mask": "x"}
    (stopped,) = (
        it for it in cycle(flow_of(tmp_path, cluster_a, cluster_b, [topic], **lines)).partitions if it.error
    )
    assert (1, "transform-failed") == (stopped.partition, stopped.error_code)
    assert "record at upstream offset 5: rule a: the value is no JSON" in stopped.error
    copied = [read_with_offsets(cluster_b, f"A.{topic}", partition) for partition in (0, 1)]
    assert [5, 5] == [*map(len, copied)], "all that comes before it was copied"
    passing = flow_of(tmp_path, cluster_a, cluster_b, [topic], **lines, **{f"{RULES}a__not__json": "drop"})
    assert "done" == cycle(passing).state
    assert 5 == len(read_with_offsets(cluster_b, f"A.{topic}", 1))
