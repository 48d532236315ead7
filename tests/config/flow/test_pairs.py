"""Which flow beats for which pair of clusters."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.config.flow.flows import ResolvedFlow
from twinlog.config.flow.load import load, resolve
from twinlog.config.flow.settings import FlowSettings

ALIASES = ("A", "B", "C")
PAIRS = tuple(f"{source}->{target}" for source, target in permutations(ALIASES, 2))


def flows_of(path: Path, *lines: str) -> dict[str, FlowSettings]:
    path.write_text(
        "\n".join(["clusters = A, B, C", *(f"{it}.bootstrap.servers = {it}:1" for it in ALIASES), *lines])
    )
    return dict(load(path, environ={}).flows)


def beats_of(flow: FlowSettings) -> list[str]:
    """Name all pairs that a flow beats for."""
    pairs = [flow, *([flow.reverse_heartbeats] if flow.reverse_heartbeats else []), *flow.other_heartbeats]
    return [pair.name for pair in pairs if pair.emit_heartbeats]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["A->B.enabled=true"], {"A->B": ["A->B", "B->A", "A->C", "B->C", "C->A", "C->B"]}),
        (
            ["A->B.enabled=true", "B->C.enabled=true"],
            {"A->B": ["A->B", "B->A", "C->A"], "B->C": ["B->C", "C->B", "A->C"]},
        ),
        (
            ["A->B.enabled=true", "emit.heartbeats.enabled=false", "C->A.emit.heartbeats.enabled=true"],
            {"A->B": ["C->A"]},
        ),
    ],
)
def test_who_beats_for_a_pair_without_a_flow(tmp_path: Path, lines: list[str], expected: object) -> None:
    """The first flow of the file that meets the cluster that is written to, else the first."""
    flows = flows_of(tmp_path / "f", *lines)
    assert expected == {name: beats_of(flow) for name, flow in flows.items() if flow.enabled}


@given(
    st.sets(st.sampled_from(PAIRS), min_size=1),
    st.booleans(),
    st.dictionaries(st.sampled_from(PAIRS), st.booleans()),
)
def test_each_pair_that_beats_in_mm2_beats_once(
    tmp_path_factory: pytest.TempPathFactory, enabled: set[str], everywhere: bool, told: dict[str, bool]
) -> None:
    """MirrorMakerConfig.clusterPairs: a pair beats if its own flag, else the top level's, is true; enabled or not."""
    lines = [f"{it}.enabled=true" for it in enabled]
    lines += [f"emit.heartbeats.enabled={everywhere}"]
    lines += [f"{name}.emit.heartbeats.enabled={on}" for name, on in told.items()]
    flows = flows_of(tmp_path_factory.mktemp("f") / "f", *lines)
    beating = [name for flow in flows.values() if flow.enabled for name in beats_of(flow)]
    assert sorted(it for it in PAIRS if told.get(it, everywhere)) == sorted(beating)


class TestPairsOfNoLineOfTheirOwn:
    """Most pairs of a large mesh are not named: they are made of what others from and to the same clusters say."""

    LINES = (
        "clusters = A, B, C, D",
        "topics = orders",
        *(f"{alias}.bootstrap.servers = {alias.lower()}:9092" for alias in "ABCD"),
        "C.security.protocol = SASL_SSL",
        "C.sasl.mechanism = PLAIN",
        "C.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="u" password="p";',
        "C.client.id = ours",
        "C.offset.storage.partitions = 7",
        "D.offset.storage.topic = kept",
        "D.consumer.fetch.max.bytes = 123456",
        "D.producer.linger.ms = 7",
        "heartbeats.topic.replication.factor = 2",
        "A->B.enabled = true",
        "C->A.emit.heartbeats.interval.seconds = 9",
    )

    def test_they_are_as_if_read_by_themselves(self, tmp_path: Path) -> None:
        """Settings and what is shown of them; a line of another file's kind makes each be read by itself."""
        path = tmp_path / "mm2.properties"
        path.write_text("\n".join(self.LINES))
        made = resolve(path)
        path.write_text("\n".join([*self.LINES, f"replication.policy.class = {POLICY}"]))
        read = resolve(path)
        assert set(read.flows) == set(made.flows)
        for name, expected in read.flows.items():
            flow = made.flows[name]
            assert replace(expected.settings, policy=flow.settings.policy) == flow.settings
            assert shown(expected) == shown(flow)


POLICY = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"


def shown(flow: ResolvedFlow) -> dict[str, tuple[str, str]]:
    """What is shown of each value but the policy's name."""
    return {it.key: (it.shown, it.origin.place) for it in flow.values if it.key != "replication.policy.class"}
