"""Which flows a command works on."""

from dataclasses import replace
from pathlib import Path

import pytest

from twinlog.cli.flows import select_flows, to_clusters
from twinlog.config.flow.settings import (
    Configuration,
    FlowSettings,
)
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.errors import ConfigError, UsageError


def _cluster(alias: str) -> ClusterSettings:
    return ClusterSettings(alias, "localhost:1", ConnectionSettings(alias, (("localhost", 1),)))


def _configuration(*names: str, disabled: tuple[str, ...] = ()) -> Configuration:
    flows = {}
    for name in (*names, *disabled):
        source, target = name.split("->")
        flows[name] = FlowSettings(_cluster(source), _cluster(target), enabled=name not in disabled)
    return Configuration(Path("mm2.properties"), "", {"A": _cluster("A"), "B": _cluster("B")}, flows)


def test_no_name_means_every_enabled_flow() -> None:
    """A flow that only beats is not run."""
    flows = select_flows(_configuration("A->B", disabled=("B->A",)), None)
    assert [flow.name for flow in flows] == ["A->B"]


def test_names_keep_their_order_and_count_once() -> None:
    """--flow may be repeated, with MM2's blanks around the arrow."""
    flows = select_flows(_configuration("A->B", "B->A"), ["B -> A", "A->B", "B->A"])
    assert [flow.name for flow in flows] == ["B->A", "A->B"]


def test_an_unknown_flow_names_the_known_ones() -> None:
    """A typo is answered with what there is."""
    with pytest.raises(UsageError) as caught:
        select_flows(_configuration("A->B", "B->A"), ["A->C"])
    assert str(caught.value) == "mm2.properties has no flow A->C; its enabled flows are: A->B, B->A"


def test_a_flow_that_is_not_enabled_says_how_to_enable_it() -> None:
    """The key to set is in the hint."""
    with pytest.raises(UsageError) as caught:
        select_flows(_configuration("A->B", disabled=("B->A",)), ["B->A"])
    assert (
        str(caught.value)
        == "flow B->A of mm2.properties is not enabled; set B->A.enabled = true there, or choose one of: A->B"
    )


def test_a_file_without_an_enabled_flow_is_a_configuration_error() -> None:
    """MM2 would start and do nothing; we say so."""
    empty = replace(_configuration(), flows={})
    with pytest.raises(
        ConfigError, match=r"mm2\.properties enables no flow; add a line such as A->B\.enabled = true"
    ):
        select_flows(empty, None)


def test_an_empty_name_is_no_flow() -> None:
    """`--flow ''` of a script whose variable is not set is said to be empty, and is not every flow."""
    with pytest.raises(UsageError, match=r"--flow is empty; name one of the enabled flows of .*: A->B"):
        select_flows(_configuration("A->B"), [""])


@pytest.mark.parametrize(
    ("targets", "expected"), [("B", ["A->B"]), ("B,A", ["A->B", "B->A"]), ("B A", ["A->B", "B->A"])]
)
def test_clusters_are_the_targets_of_flows(targets: str, expected: list[str]) -> None:
    """As MM2's option, which stands on the host of the target's data centre."""
    configuration = _configuration("A->B", "B->A")
    flows = to_clusters(configuration, configuration.enabled_flows, targets)
    assert expected == [flow.name for flow in flows]


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ("C", "--clusters: mm2.properties has no cluster C; its clusters are: A, B"),
        ("A", "--clusters: no enabled flow of mm2.properties copies to A; name targets of flows: B"),
        (",", "--clusters: no enabled flow of mm2.properties copies to no cluster; name targets of flows: B"),
    ],
)
def test_clusters_that_leave_no_flow_are_refused(targets: str, expected: str) -> None:
    """Nothing would be copied, and nobody told."""
    configuration = _configuration("A->B")
    with pytest.raises(UsageError) as caught:
        to_clusters(configuration, configuration.enabled_flows, targets)
    assert expected == str(caught.value)
