"""Schema registries along with their flows, on real brokers: cycle, gate, failover, the way home.

The registries are those in memory, by HTTP: they import ids as Confluent's API says.  Cost: 5 s without the test that
goes over and home, which takes 40 to 100 s.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import requests
from fake_registry import Answer, FakeRegistry
from test_failback import BothWays, write
from test_failover import Reader, start_again, steps_of

from twinlog.cli.main import main
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.duties.plan import DutyName, DutyState
from twinlog.duties.run import Duties
from twinlog.gate import metadata as gate_metadata
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.procedure import StepName
from twinlog.recovery.report import FailbackReport, FailoverReport
from twinlog.topics.snapshot import FlowSnapshot

pytestmark = pytest.mark.integration


class World(BothWays):
    """Two flows both ways, and a registry beside each cluster."""

    def __init__(self, folder: Path, left, right, on_a: str, on_b: str) -> None:
        super().__init__(folder, left, right)
        a, b = self.there.source.alias, self.there.target.alias
        lines = (
            f"{a}.schema.registry.url={on_a}",
            f"{b}.schema.registry.url={on_b}",
            "twinlog.schemas.subjects=orders-.*",
        )
        self.file.write_text("\n".join([self.file.read_text(), *lines, ""]))
        flows = load(self.file).flows
        self.there, self.back = flows[f"{a}->{b}"], flows[f"{b}->{a}"]
        self.a, self.b = a, b

    def duty(self, flow: FlowSettings) -> tuple[DutyState, str]:
        """What `twinlog run` does about schemas now and then."""
        duties = Duties(flow, "run", lambda _name, _message: None)
        with open_clusters(flow) as clusters:
            duties.do(DutyName.SCHEMAS, clusters)
        (row,) = [it for it in duties.rows if it.name == DutyName.SCHEMAS.value]
        return row.state, row.message

    def differing(self) -> tuple[str, ...] | None:
        """What the gate finds."""
        with open_clusters(self.there) as clusters:
            discovery = FlowSnapshot(self.there, clusters).discovery
            return gate_metadata.differing_schemas(self.there, clusters, discovery)

    def command(self, *words: str) -> tuple[int, dict]:
        """Run one command line about the flow there; its exit code and JSON document."""
        out = StringIO()
        with redirect_stdout(out):
            code = main([
                *words,
                *("--config", str(self.file), "--flow", self.there.name, "--output", "json"),
            ])
        return code, json.loads(out.getvalue())


def told(report: FailoverReport | FailbackReport) -> str:
    """What the step of the schemas said."""
    return next(it.message for it in report.steps if it.name is StepName.SCHEMAS)


@pytest.fixture
def registries() -> Iterator[tuple[FakeRegistry, FakeRegistry, str, str]]:
    """Two registries that listen."""
    a, b = FakeRegistry(), FakeRegistry()
    with a.listening() as on_a, b.listening() as on_b:
        yield a, b, on_a, on_b


@pytest.mark.long
def test_schemas_go_over_and_come_home(cluster_a, cluster_b, tmp_path: Path, registries) -> None:
    """Clients register on one side at a time, and what they register is on both, with one id."""
    a, b, on_a, on_b = registries
    world = World(tmp_path, cluster_a, cluster_b, on_a, on_b)
    a.ids[40] = "ids begin anywhere"
    a.add("orders-value", '"int"')
    a.add("orders-key", '"string"')
    a.add("else-value", '"bytes"')
    write(cluster_a, world.topic, range(20))
    reader = Reader(cluster_a, world.topic, world.group)
    reader.wait_for(set(range(20)))
    reader.stop()
    code, plan = world.command("metadata", "schemas")
    assert (0, 2, False) == (code, len(plan["registrations"]), plan["equal"])
    assert 4 == len(world.differing() or ())
    for flow in (world.there, world.back):
        world.cycle(flow)
    assert (DutyState.DONE, "4 changed, 2 subjects") == world.duty(world.there)
    assert (DutyState.DONE, "0 changed, 2 subjects") == world.duty(world.back)
    assert ((), {}) == (world.differing(), a.own_modes)
    assert {"orders-key": "READONLY", "orders-value": "READONLY"} == b.own_modes
    code, plan = world.command("metadata", "schemas")
    assert (0, True) == (code, plan["equal"])

    a.add("orders-value", '"long"')  # no sync comes before the failover
    world.fail_over()
    assert {"orders-key": "READWRITE", "orders-value": "READWRITE"} == b.own_modes
    assert (DutyState.SKIPPED, "the flow is promoted") == world.duty(world.there)
    code, refused = world.command("metadata", "schemas", "--execute")
    assert (1, "promoted") == (code, refused["error"]["code"])
    assert 45 == b.add("orders-value", '"float"')
    assert (DutyState.DONE, "3 changed, 2 subjects") == world.duty(world.back)
    b.add("orders-new", '"boolean"')  # and none before the way home

    report = world.home()
    assert "following" == report.state.value, steps_of(report)
    assert f"clients register on {world.a}, not on {world.b}" == told(report)
    copied = {key: it for key, it in a.facts().items() if key[0].startswith("orders-")}
    assert (5, copied) == (len(copied), b.facts())
    assert {"READWRITE"} == {a.own_modes[name] for name, _ in copied}
    assert {"READONLY"} == {b.own_modes[name] for name, _ in copied}
    a.add("orders-value", '"double"')
    assert (DutyState.DONE, "1 changed, 3 subjects") == world.duty(world.there)
    assert (DutyState.DONE, "0 changed, 3 subjects") == world.duty(world.back)
    assert ((), {"READONLY"}) == (world.differing(), set(b.own_modes.values()))


def here(_method: str, _path: str) -> None:
    """Let the registry answer."""


def away(_method: str, _path: str) -> None:
    """Answer like a proxy before a registry that is down."""
    raise Answer(503, 50301, "no upstream")


def step(report: dict, name: str) -> str:
    """Return the message of one step of a failover's JSON."""
    return next(it["message"] for it in report["steps"] if it["name"] == name)


def schemas_of(registry: FakeRegistry, subject: str) -> set[str]:
    """The schemas of all versions of a subject."""
    return {json.loads(it["content"])["schema"] for it in registry.subjects[subject].values()}


@pytest.mark.long
def test_a_dead_source_takes_its_registry_along(cluster_b, tmp_path: Path, registries) -> None:
    """Clients register on B; what A alone had is named on the way home, and stops it until it is deleted."""
    a, b, on_a, on_b = registries
    with EmbeddedKafka("A", tmp_path / "kafka") as source:
        world = World(tmp_path, source, cluster_b, on_a, on_b)
        a.add("orders-value", '"int"')
        a.add("orders-key", '"string"')
        write(source, world.topic, range(20))
        for flow in (world.there, world.back):
            world.cycle(flow)
        assert (DutyState.DONE, "4 changed, 2 subjects") == world.duty(world.there)
        never_copied = a.add("orders-value", '"long"')
        source.kill()
        a.before = away
        code, report = world.command("failover", "--mode", "source-dead", "--yes")
        assert (0, "promoted") == (code, report["state"]), report["steps"]
        assert f"2 subjects of {world.b} are READWRITE" == step(report, "schemas")
        assert {"orders-key": "READWRITE", "orders-value": "READWRITE"} == b.own_modes
        assert never_copied == b.add("orders-value", '"float"')

        start_again(source)
        assert DutyState.FAILED is world.duty(world.back)[0]
        a.before = here
        told = f"orders-value: version 2 (id {never_copied}) is another schema on {world.a}"
        assert (DutyState.FAILED, f"{told} (schema-version-taken); the others are copied") == world.duty(
            world.back
        )
        assert "refused" == world.home().state.value
        assert {'"int"', '"long"'} == schemas_of(a, "orders-value")

        for permanent in ("", "?permanent=true"):
            requests.delete(
                f"{on_a}/subjects/orders-value/versions/2{permanent}", timeout=5
            ).raise_for_status()
        report = world.home()
        assert "following" == report.state.value, steps_of(report)
        assert {'"int"', '"float"'} == schemas_of(a, "orders-value") == schemas_of(b, "orders-value")
        assert (a.facts(), {"READONLY"}) == (b.facts(), set(b.own_modes.values()))


def test_a_registry_that_does_not_answer_or_differs_is_not_called_equal(
    cluster_a, cluster_b, tmp_path: Path, registries
) -> None:
    """Neither by the gate nor by a duty; each says why, and a plan of the flow is still shown."""
    a, b, on_a, on_b = registries
    world = World(tmp_path, cluster_a, cluster_b, on_a, on_b)
    a.add("orders-value", '"int"')
    b.add("orders-value", '"long"')
    message = f"version 1 (id 1) is another schema on {world.b}"
    assert (f"orders-value: {message}",) == world.differing()
    state, text = world.duty(world.there)
    assert (DutyState.FAILED, True) == (
        state,
        text.startswith(f"orders-value: {message} (schema-version-taken)"),
    )
    code, plan = world.command("metadata", "schemas", "--execute")
    assert (1, ["schema-version-taken"]) == (code, [it["code"] for it in plan["conflicts"]])
    world.file.write_text(world.file.read_text().replace(on_b, "http://127.0.0.1:1"))
    world.there = load(world.file).flows[world.there.name]
    assert (f"the schema registry of {world.b} does not answer: ConnectionError",) == world.differing()
    assert DutyState.FAILED is world.duty(world.there)[0]
    code, refused = world.command("metadata", "schemas")
    assert (3, "schema-registry-unreachable") == (code, refused["error"]["code"])
    code, report = world.command("check")
    assert (1, False) == (code, report["passed"])
