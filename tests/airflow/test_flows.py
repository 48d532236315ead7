from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from twinlog.airflow.flows import (
    STEP_JOB,
    configuration_path,
    dag_id_of,
    flows_by_dag,
    read_configuration,
)
from twinlog.config.flow.settings import (
    Configuration,
    FlowSettings,
)
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.errors import ConfigError
from twinlog.lab.kafka.certificates import make_certificates
from twinlog.policy.replication import IdentityReplicationPolicy


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


FLOWS = flow("B", "A"), flow("A", "C", enabled=False), flow("C", "A", enabled=False), flow("A", "B")


@pytest.mark.parametrize("kind", ["audit", "failback", "drill", "rebuild"])
def test_every_enabled_flow_has_a_dag_in_the_order_of_the_file(kind: str) -> None:
    """A flow that only beats has no Dag."""
    assert [f"{kind}__B__A", f"{kind}__A__B"] == list(flows_by_dag(configuration(*FLOWS), kind))


def test_cycles_and_failovers_have_a_dag_for_the_way_home_of_each_flow_too() -> None:
    """From copies with other names it is a flow of its own; behind a continuous flow it copies each minute."""
    kept = replace(flow("X", "Y"), policy=IdentityReplicationPolicy(source_alias="X"))
    alone = flow("V", "W")
    continuous = replace(flow("C", "D"), schedule="@continuous")
    found = flows_by_dag(configuration(*FLOWS, kept, flow("Y", "X"), alone, continuous, flow("D", "C")))
    names = [name for name, it in found.items() if it.homes is not None]
    assert "failover__B_home__A" in flows_by_dag(configuration(*FLOWS), "failover")
    assert ["B__A", "A__B", "X__Y", "Y__X", "V__W", "C__D", "D__C"] == [
        name.removeprefix("replicate__") for name in found if name not in names
    ]
    assert [
        "replicate__A_home__B",
        "replicate__B_home__A",
        "replicate__X_home__Y",
        "replicate__D_home__C",
        "replicate__C_home__D",
    ] == names
    assert ["* * * * *"] * 5 == [found[name].schedule for name in names]


def test_two_flows_under_one_id_are_refused() -> None:
    """A Dag that silently replaces another one would be a flow that is not replicated."""
    with pytest.raises(ConfigError, match="a-b->C and a_b->C would both be Dag replicate__a_b__C"):
        flows_by_dag(configuration(flow("a-b", "C"), flow("a_b", "C")))


def test_environment_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """TWINLOG_CONFIG does; unset or empty means none: nobody's flows are guessed."""
    monkeypatch.setenv("TWINLOG_CONFIG", "/etc/twinlog/mm2.properties")
    assert Path("/etc/twinlog/mm2.properties") == configuration_path()
    monkeypatch.setenv("TWINLOG_CONFIG", "")
    with pytest.raises(
        ConfigError, match=r"TWINLOG_CONFIG names no file; set it to your mm2\.properties for"
    ):
        configuration_path()
    assert STEP_JOB.exists()


TLS = {"security.protocol": "SSL"}
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
JKS = str(Path(__file__).parents[1] / "config/security/java_stores/client.jks")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of key stores and trust stores."""
    return make_certificates(tmp_path_factory.mktemp("stores")).folder


@pytest.mark.parametrize(
    "properties",
    [
        TLS | {"ssl.keystore.location": "STORES/client.p12", "ssl.keystore.password": "${airflow:ka}"},
        TLS | {"ssl.keystore.location": JKS, "ssl.keystore.password": "${airflow:ka}"},
        TLS | {"ssl.truststore.location": "STORES/truststore.p12", "ssl.truststore.password": "${airflow:ka}"},
        TLS | {"ssl.truststore.certificates": "${airflow:ka:ca}"},
        TLS | {"ssl.keystore.type": "PEM", "ssl.keystore.key": "${airflow:ka:key}"},
        SASL | {"sasl.jaas.config": "${airflow:ka:jaas}"},
        {"security.protocol": "${airflow:ka:protocol}"},
        {"bootstrap.servers": "${airflow:ka:bootstrap.servers}"},
        {"bootstrap.servers": "localhost:${airflow:ka:port}"},
        {"consumer.request.timeout.ms": "${airflow:ka:patience}"},
    ],
)  # fmt: skip
def test_a_dag_file_needs_no_value_of_a_connection(
    stores: Path, configure: Callable[[dict[str, str]], None], properties: dict[str, str]
) -> None:
    """Passwords of stores, PEM, a JAAS line, addresses, times: a task checks what holds such a value."""
    configure({key: value.replace("STORES", str(stores)) for key, value in properties.items()})

    assert ["replicate__A__B", "replicate__B_home__A"] == list(flows_by_dag(read_configuration()))
    with pytest.raises(ConfigError):
        read_configuration(lambda _conn_id, _field: "wrong")


def test_a_dag_file_tells_of_a_mistake_in_what_is_known(configure: Callable[[dict[str, str]], None]) -> None:
    """As ever."""
    configure({"bootstrap.servers": "localhost", "client.id": "${env:HOME}"})

    with pytest.raises(ConfigError, match="'localhost' is not host:port"):
        read_configuration()


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Let Airflow work from a file of a flow A->B, with these properties of A."""

    def write(properties: dict[str, str]) -> None:
        file = tmp_path / "mm2.properties"
        lines = ["clusters = A, B", "A->B.enabled = true", "B.bootstrap.servers = localhost:9093"]
        a = {"bootstrap.servers": "localhost:9092"} | properties
        file.write_text("\n".join([*lines, *(f"A.{key} = {value}" for key, value in a.items())]) + "\n")
        monkeypatch.setenv("TWINLOG_CONFIG", str(file))

    return write
