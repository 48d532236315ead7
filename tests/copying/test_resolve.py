"""What is resolved behind the fence: by what is read there, not by what was found before."""

from dataclasses import replace

from twinlog.copying.resolve import resolve_now
from twinlog.lifecycle import sync_topics
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.topics.snapshot import FlowSnapshot


def test_a_copy_begins_where_the_ledger_of_now_says(flow, clusters, target, orders):
    """A rebuild has moved the beginning since the topics were found: by the old one, records would be left out."""
    sync_topics.run(flow, clusters)
    noted = read_ledger(flow, target).beginnings["orders"]
    write_ledger(flow, target, [replace(noted, offsets={"0": 4})])
    found = FlowSnapshot(flow, clusters).discovery.topics
    write_ledger(flow, target, [replace(noted, offsets={"0": 1})])
    resolved = resolve_now(flow, clusters, found, {}, {}, {})
    assert ([4], [1]) == ([it.begins for it in found[0].partitions], [it.start for it in resolved.ranges])
