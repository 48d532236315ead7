"""A failover lets clients register on the promoted side; a registry that cannot be asked does not stop it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fake_registry import FakeRegistry

from twinlog.cluster.api import Clusters
from twinlog.config.security.connection import Registries, RegistrySettings
from twinlog.formats.ledger.recovery import StepState
from twinlog.policy.selection import NameFilter
from twinlog.recovery.procedure import Actor
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps import registries
from twinlog.recovery.steps.world import LOOKING, Request, World


def world_of(flow: Any) -> World:
    """A failover of a flow; no step here asks its clusters."""
    away: Any = None
    return World.of(Way(flow, Clusters(away, away)), Request("jo"), LOOKING, Actor("jo", ""))


def scene(flow: Any, url: str) -> World:
    """A failover of a flow that copies subjects to this registry."""
    both = Registries(RegistrySettings("A", ("http://127.0.0.1:1",)), RegistrySettings("B", (url,)))
    schemas = replace(flow.metadata.schemas, subjects=NameFilter(("orders-.*",)), registries=both)
    return world_of(replace(flow, metadata=replace(flow.metadata, schemas=schemas)))


def test_a_flow_without_subjects_has_nothing_to_do(flow) -> None:
    """And a dry run says so."""
    outcome = registries.let_register(world_of(flow))
    assert StepState.SKIPPED is outcome.state
    assert "nothing: the flow copies no subjects of a schema registry" == registries.look(world_of(flow))


def test_copies_become_writable_without_the_source(flow) -> None:
    """As often as it is run; a dry run counts, and changes nothing."""
    fake = FakeRegistry()
    for name in ("orders-key", "orders-value", "own"):
        fake.add(name, '"int"')
        fake.own_modes[name] = "READONLY"
    with fake.listening() as url:
        here = scene(flow, url)
        assert "would let clients register 2 subjects of B" == registries.look(here)
        assert {"READONLY"} == set(fake.own_modes.values())
        outcomes = [registries.let_register(here) for _ in range(2)]
    assert ["2 subjects of B are READWRITE", "0 subjects of B are READWRITE"] == [
        it.message for it in outcomes
    ]
    assert {"orders-key": "READWRITE", "orders-value": "READWRITE", "own": "READONLY"} == fake.own_modes


def test_a_registry_that_does_not_answer_is_named_and_clients_go_on(flow) -> None:
    """The step is done, and says what a person has to do."""
    here = scene(flow, "http://127.0.0.1:1")
    outcome = registries.let_register(here)
    assert (StepState.DONE, False) == (outcome.state, outcome.ends)
    assert outcome.message.startswith(
        "see to it: clients may not be able to register on B: the schema registry of B does not answer"
    )
    assert (outcome.message.removeprefix("see to it: "),) == outcome.found.notes
    assert "unknown (the schema registry of B does not answer: ConnectionError)" == registries.look(here)
