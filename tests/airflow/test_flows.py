from pathlib import Path

import pytest

from twinlog.airflow.flows import (
    DEFAULT_CONFIG,
    REPLICATE_JOB,
    configuration_path,
    dag_id_of,
    flow_dags,
)
from twinlog.config.connection import ConnectionSettings
from twinlog.config.settings import ClusterSettings, Configuration, FlowSettings
from twinlog.errors import ConfigError


def flow(source: str, target: str, *, enabled: bool = True) -> FlowSettings:
    return FlowSettings(cluster(source), cluster(target), enabled=enabled)


def cluster(alias: str) -> ClusterSettings:
    return ClusterSettings(alias, "localhost:9092", ConnectionSettings(alias, (("localhost", 9092),)))


def configuration(*flows: FlowSettings) -> Configuration:
    return Configuration(Path("mm2.properties"), "", {}, {flow.name: flow for flow in flows})


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("A", "B", "replicate__A__B"),
        ("us-east", "eu.west", "replicate__us_east__eu_west"),
        ("Köln", "x/y z", "replicate__K_ln__x_y_z"),
    ],
)
def test_dag_id_names_both_aliases(source: str, target: str, expected: str) -> None:
    """An id holds only letters, digits and underscores, whatever the aliases hold."""
    assert expected == dag_id_of("replicate", source, target)


def test_every_enabled_flow_has_a_dag_in_the_order_of_the_file() -> None:
    """A flow that only beats has no Dag."""
    dags = flow_dags(configuration(flow("B", "A"), flow("A", "C", enabled=False), flow("A", "B")))

    assert ["replicate__B__A", "replicate__A__B"] == list(dags)


def test_two_flows_under_one_id_are_refused() -> None:
    """A Dag that silently replaces another one would be a flow that is not replicated."""
    with pytest.raises(ConfigError, match="a-b->C and a_b->C would both be Dag replicate__a_b__C"):
        flow_dags(configuration(flow("a-b", "C"), flow("a_b", "C")))


def test_environment_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """TWINLOG_CONFIG wins; unset or empty means the project's own file."""
    monkeypatch.setenv("TWINLOG_CONFIG", "/etc/twinlog/mm2.properties")
    assert Path("/etc/twinlog/mm2.properties") == configuration_path()
    monkeypatch.setenv("TWINLOG_CONFIG", "")
    assert configuration_path() == DEFAULT_CONFIG
    assert REPLICATE_JOB.parent.parent == DEFAULT_CONFIG.parents[2]
