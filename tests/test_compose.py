"""docker-compose.yaml agrees with what it starts and what configures it; Compose itself reads it in test_image."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from twinlog.config.flow.load import load
from twinlog.errors import ConfigError
from twinlog.spark.protection import PROTECTED, require_safe_way, shares_session
from twinlog.spark.server import KEEP_SESSIONS
from twinlog.spark.session import CONF

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
SERVICES: dict[str, dict] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("twinlog:")}
AIRFLOW = {name: service for name, service in OURS.items() if name.startswith("airflow-")}
ENVIRONMENT = {"SPARK_CONNECT_TOKEN": "t"}


def texts(node) -> list[str]:
    """Every string below a node of the file."""
    if isinstance(node, dict):
        return [text for value in node.values() for text in texts(value)]
    if isinstance(node, list):
        return [text for value in node for text in texts(value)]
    return [node] if isinstance(node, str) else []


def test_what_others_made_is_pinned_and_reached_from_here_alone():
    """No image of whatever is newest, and no port for the network."""
    assert [] == [it["image"] for it in SERVICES.values() if not re.search(r":v?[0-9][\w.-]*$", it["image"])]
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert [] == [port for port in ports if not port.startswith("127.0.0.1:")]


def test_one_service_builds_the_image():
    """With containerd's store several builds of one tag fail; nobody looks elsewhere for it."""
    policies = {name: service["pull_policy"] for name, service in OURS.items()}
    assert ["spark-master"] == [name for name, service in SERVICES.items() if "build" in service]
    assert {name: "build" if name == "spark-master" else "never" for name in OURS} == policies


def test_nothing_hides_the_package():
    """The kernel and all bytecode are in the image alone; of the work tree come Dags and configuration."""
    mounted = {it for service in OURS.values() for it in service.get("volumes", []) if it.startswith("./")}
    assert {"./dags:/opt/twinlog/dags:ro", "./include/config:/opt/twinlog/config:ro"} == mounted


def test_no_secret_stands_in_the_file():
    """What sounds secret comes from the environment, must be set there, and has no default."""
    secret = re.compile(r"PASSWORD$|SECRET|TOKEN|FERNET_KEY|_CONN$")
    required = re.compile(r"(postgresql\+psycopg2://airflow:)?\$\{[A-Z_]+:\?[^}]+\}(@postgres:5432/airflow)?")
    values = {
        f"{name} {key}": value
        for name, service in SERVICES.items()
        for key, value in service.get("environment", {}).items()
        if secret.search(key)
    }
    assert {"postgres POSTGRES_PASSWORD", "airflow-init AIRFLOW_ADMIN_PASSWORD"} <= values.keys()
    assert [] == [key for key, value in values.items() if not required.fullmatch(value)]
    assert [] == [text for text in texts(COMPOSE) if re.search(r"\$\{[A-Z_]+(:?-|\})", text)]


def test_the_head_of_the_file_makes_every_variable():
    """The command that writes .env names exactly the variables that the file needs."""
    text = (ROOT / "docker-compose.yaml").read_text()
    made = set(
        re.search(r"for name in ([A-Z_ #\\\n]+);", text)[1].replace("#", " ").replace("\\", " ").split()
    )
    assert made == set(re.findall(r"\$\{([A-Z_]+)", text))
    assert "umask 077" in text  # whoever else is on this machine may not read it
    assert ".env" in (ROOT / ".gitignore").read_text().split()


def test_what_airflow_writes_outlives_its_containers():
    """Logs, passwords, the gate's evidence and numbers are in named volumes, whose folders are the image's user's."""
    flow = load(ROOT / "include/config/compose.properties", environ=ENVIRONMENT).flows["A->B"]
    folders = {str(flow.gate.reports), str(flow.metrics.folder)}
    dockerfile = (ROOT / "docker/Dockerfile").read_text()
    made = re.search(r"install --directory --owner twinlog ((?:.+\\\n)*.+)", dockerfile)[1].split()
    for service in AIRFLOW.values():
        named = {volume.split(":")[1] for volume in service["volumes"] if not volume.startswith("./")}
        assert {"/opt/airflow/logs", "/opt/airflow/auth", *folders} == named
        assert named <= set(made)


def test_clusters_have_ids_of_their_own():
    """Discovery takes two clusters of one id for one: each says a Kafka UUID, 16 bytes in 22 characters."""
    ids = [SERVICES[name]["environment"]["CLUSTER_ID"] for name in ("kafka-a", "kafka-b")]
    assert 2 == len(set(ids))
    assert [16, 16] == [len(base64.urlsafe_b64decode(f"{each}==")) for each in ids]


def commands(name: str) -> list[list[str]]:
    service = OURS[name]
    given = [service["command"]] if "command" in service else []
    return [*given, *([service["healthcheck"]["test"][1:]] if "healthcheck" in service else [])]


def test_spark_connect_has_the_settings_of_a_classic_session():
    """What twinlog.spark.master sets where it starts Spark is set for the server that runs already."""
    words = SERVICES["spark-connect"]["command"]
    given = dict(word.split("=", 1) for word in words if word.startswith("spark.") and "=" in word)
    assert {**CONF, **PROTECTED, **KEEP_SESSIONS, "spark.connect.grpc.binding.port": "15002"} == given


def test_nobody_else_is_let_into_spark():
    """Master, worker and driver have one secret, the Connect server a token, and Airflow sends it."""
    daemons = [SERVICES[name]["environment"] for name in ("spark-master", "spark-worker")]
    server = SERVICES["spark-connect"]["environment"]
    assert 1 == len({it["_SPARK_AUTH_SECRET"] for it in [*daemons, server]})
    for daemon in daemons:
        assert {"-Dspark.authenticate=true", "-Dspark.master.rest.enabled=false"} < set(
            daemon["SPARK_DAEMON_JAVA_OPTS"].split()
        )
    token = server["SPARK_CONNECT_AUTHENTICATE_TOKEN"]
    assert [token] * len(AIRFLOW) == [it["environment"]["SPARK_CONNECT_TOKEN"] for it in AIRFLOW.values()]
    master = (
        load(ROOT / "include/config/compose.properties", environ=ENVIRONMENT).flows["A->B"].copy.spark_master
    )
    with pytest.raises(ConfigError, match="has no TLS, and"):  # a token it has
        require_safe_way(master, [SimpleNamespace(holds_secrets=True)], {})
    assert master.endswith(";authorization=Bearer%20t")
    assert shares_session(master)  # or the server keeps a Python process of every cycle


def test_the_configuration_is_that_of_the_work_tree_but_for_addresses():
    """compose.properties and mm2.properties differ in addresses and folders only, and both load."""
    files = {name: ROOT / "include/config" / f"{name}.properties" for name in ("mm2", "compose")}
    for path in files.values():
        assert ["A->B"] == [
            flow.name for flow in load(path, environ={**ENVIRONMENT, "TWINLOG_STRICT": "1"}).enabled_flows
        ]
    lines = {
        name: {line for line in path.read_text().splitlines() if "=" in line} for name, path in files.items()
    }
    different = {line.split(" = ")[0] for line in lines["mm2"] ^ lines["compose"]}
    addresses = {"A.bootstrap.servers", "B.bootstrap.servers", "twinlog.spark.master"}
    assert {*addresses, "twinlog.reports.folder", "twinlog.metrics.folder"} == different
    for service in AIRFLOW.values():
        assert "/opt/twinlog/config/compose.properties" == service["environment"]["TWINLOG_CONFIG"]


@pytest.mark.airflow
def test_airflow_knows_every_option_and_command(tmp_path):
    """Each AIRFLOW__ variable is an option of the pinned Airflow, and each command parses.  Cost: about 10 s."""
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path)}
    airflow = [sys.executable, "-m", "airflow"]
    listing = subprocess.run(
        [*airflow, "config", "list", "--include-env-vars"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    known = set(re.findall(r"AIRFLOW__[A-Z0-9_]+", listing.stdout))
    assert (
        set()
        == {key for key in AIRFLOW["airflow-init"]["environment"] if key.startswith("AIRFLOW__")} - known
    )
    script = (
        "import sys; from airflow.cli.cli_parser import get_parser\n"
        "[get_parser().parse_args(line.split()) for line in sys.argv[1:]]"
    )
    lines = {
        " ".join(words) for name in AIRFLOW for program, *words in commands(name) if program == "airflow"
    }
    parsed = subprocess.run(
        [sys.executable, "-c", script, "db migrate", *lines],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, 7) == (parsed.returncode, len(lines) + 1), parsed.stderr


@pytest.mark.integration
def test_kafka_knows_every_setting(cluster_a):
    """Each KAFKA_ variable, as the image reads it, is a setting of a broker."""
    from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

    admin = AdminClient({"bootstrap.servers": cluster_a.bootstrap_servers})
    broker = ConfigResource(ResourceType.BROKER, "1")
    known = set(admin.describe_configs([broker])[broker].result(10))
    environment = SERVICES["kafka-a"]["environment"]
    variables = (key for key in environment if key.startswith("KAFKA_"))
    settings = {key.removeprefix("KAFKA_").lower().replace("_", ".") for key in variables}
    assert set() == settings - known


def test_prometheus_and_grafana_find_what_they_show():
    """Prometheus reads the folder that cycles write to, and Grafana Prometheus and the dashboard's folder."""
    monitoring = ROOT / "include/config/monitoring"
    scraped = yaml.safe_load((monitoring / "compose.yml").read_text())
    (job,) = scraped["scrape_configs"]
    assert [{"targets": ["node-exporter:9100"]}] == job["static_configs"]
    assert all((monitoring / name).is_file() for name in scraped["rule_files"])
    (source,) = yaml.safe_load((monitoring / "grafana/datasources/prometheus.yml").read_text())["datasources"]
    assert "http://prometheus:9090" == source["url"]
    (provider,) = yaml.safe_load((monitoring / "grafana/dashboards/twinlog.yml").read_text())["providers"]
    mounted = [volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/twinlog.json" in mounted
    written = (
        load(ROOT / "include/config/compose.properties", environ=ENVIRONMENT).flows["A->B"].metrics.folder
    )
    assert f"--collector.textfile.directory={written}" in SERVICES["node-exporter"]["command"]
