"""docker-compose.yaml, checked where there is no Docker: its form, and that all it names exists.

What cannot be checked here: that the images of others (apache/kafka, postgres, python) hold what they are known for.
The image of our own is made of the locked set that this environment has, so its commands are looked up here.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import jsonschema
import pytest
import yaml

from twinlog.config.flow.load import load
from twinlog.spark.protection import PROTECTED, ConnectAddress, shares_session
from twinlog.spark.server import KEEP_SESSIONS
from twinlog.spark.session import CONF

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
SERVICES: dict[str, dict] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
AIRFLOW = {name: service for name, service in OURS.items() if name.startswith("airflow-")}
ENVIRONMENT = {"SPARK_CONNECT_TOKEN": "t"}
PROJECT_IN_IMAGE = "/opt/twinlog"

DURATION = {"type": "string", "pattern": r"^\d+[smh]$"}
TEXT_MAP = {"type": "object", "additionalProperties": {"type": "string"}}
HEALTHCHECK = {
    "type": "object",
    "required": ["test", "interval", "timeout", "retries"],
    "additionalProperties": False,
    "properties": {
        "test": {
            "type": "array",
            "prefixItems": [{"const": "CMD"}],
            "minItems": 2,
            "items": {"type": "string"},
        },
        "interval": DURATION,
        "timeout": DURATION,
        "start_period": DURATION,
        "retries": {"type": "integer", "minimum": 1},
    },
}
SERVICE = {
    "type": "object",
    "required": ["image", "restart"],
    "additionalProperties": False,
    "properties": {
        "image": {"type": "string", "pattern": r"^[a-z0-9./-]+:v?[0-9][A-Za-z0-9._-]*$"},
        "build": {
            "type": "object",
            "required": ["context", "dockerfile"],
            "additionalProperties": False,
            "properties": {"context": {"type": "string"}, "dockerfile": {"type": "string"}},
        },
        "deploy": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"replicas": {"type": "integer", "minimum": 1}},
        },
        "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
        "command": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "environment": TEXT_MAP,
        "expose": {"type": "array", "items": {"type": "string", "pattern": r"^\d+$"}},
        "ports": {"type": "array", "items": {"type": "string", "pattern": r"^127\.0\.0\.1:\d+:\d+$"}},
        "volumes": {"type": "array", "items": {"type": "string", "pattern": r"^[^:]+:/[^:]+(:ro)?$"}},
        "healthcheck": HEALTHCHECK,
        "depends_on": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["condition"],
                "additionalProperties": False,
                "properties": {
                    "condition": {
                        "enum": ["service_started", "service_healthy", "service_completed_successfully"]
                    }
                },
            },
        },
    },
}
SCHEMA = {
    "type": "object",
    "required": ["name", "services", "volumes"],
    "additionalProperties": False,
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        "services": {"type": "object", "additionalProperties": SERVICE},
        "volumes": {"type": "object", "additionalProperties": {"type": "null"}},
    },
}
"""The part of the Compose Specification that we use, and our own rules: images pinned by a version, ports of this
machine only, commands as lists.  Whatever is not listed here is refused."""


def texts(node) -> list[str]:
    """Every string below a node of the file."""
    if isinstance(node, dict):
        return [text for value in node.values() for text in texts(value)]
    if isinstance(node, list):
        return [text for value in node for text in texts(value)]
    return [node] if isinstance(node, str) else []


def test_the_file_has_the_form_of_a_compose_file():
    """Every key is one that Compose knows, with a value of its type."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert [] == [error.message for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(COMPOSE)]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("image",), "apache/kafka:latest"),
        (("image",), "apache/kafka"),
        (("ports",), ["19092:19092"]),
        (("healthchek",), {}),
        (("restart",), False),
        (("environment", "A"), 1),
    ],
)
def test_the_form_check_notices_mistakes(path, value):
    """A floating image, a port open to the world, a typo and an unquoted number are refused."""
    service = {**SERVICES["kafka-a"]}
    if len(path) == 1:
        service[path[0]] = value
    else:
        service[path[0]] = {**service[path[0]], path[1]: value}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**COMPOSE, "services": {"kafka-a": service}}, SCHEMA)


def test_all_that_the_issue_asks_for_is_there():
    """Clusters, Spark with two workers, every component of Airflow with its database, and what shows numbers."""
    spark = {"spark-master", "spark-worker", "spark-connect"}
    airflow = {
        "airflow-init",
        "airflow-api-server",
        "airflow-scheduler",
        "airflow-dag-processor",
        "airflow-triggerer",
    }
    numbers = {"node-exporter", "prometheus", "grafana"}
    assert {"kafka-a", "kafka-b", "postgres", *spark, *airflow, *numbers} == set(SERVICES)
    assert 2 == SERVICES["spark-worker"]["deploy"]["replicas"]


def test_every_service_that_stays_has_a_health_check():
    """Only the one-shot service has none, and it alone is not restarted."""
    assert ["airflow-init"] == [name for name, service in SERVICES.items() if "healthcheck" not in service]
    assert ["airflow-init"] == [name for name, service in SERVICES.items() if service["restart"] == "no"]


def test_dependencies_can_be_met():
    """Who waits for health waits for a service with a check, who waits for an end for the one-shot, and no circle."""
    waits = {name: service.get("depends_on", {}) for name, service in SERVICES.items()}
    for name, others in waits.items():
        for other, how in others.items():
            needs_check = how["condition"] == "service_healthy"
            assert needs_check == ("healthcheck" in SERVICES[other]), f"{name} waits for {other}"
    started: set[str] = set()
    while ready := {name for name, others in waits.items() if others.keys() <= started} - started:
        started |= ready
    assert set(SERVICES) == started


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
    assert ".env" in (ROOT / ".gitignore").read_text().split()


def test_volumes_exist():
    """A bind mount is there, in our image where the image has it; a named volume is declared."""
    for name, service in SERVICES.items():
        for source, target in (volume.split(":")[:2] for volume in service.get("volumes", [])):
            if source.startswith("./"):
                assert (ROOT / source).exists(), f"{name}: {source}"
                assert name not in OURS or f"{PROJECT_IN_IMAGE}/{source[2:]}" == target
            else:
                assert source in COMPOSE["volumes"], f"{name}: {source}"
    used = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert set(COMPOSE["volumes"]) <= used


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


def test_every_address_is_a_port_that_a_service_listens_on():
    """Each host:port of the file and of its configuration names a service and one of its ports."""
    configuration = (ROOT / "include/config/compose.properties").read_text()
    found = re.findall(r"(?<![\w.-])([a-z][a-z-]*):(\d{4,5})\b", "\n".join([*texts(SERVICES), configuration]))
    addresses = {(host, port) for host, port in found if host in SERVICES}
    assert {"kafka-a", "kafka-b", "spark-master", "spark-connect", "postgres", "airflow-api-server"} == {
        host for host, _ in addresses
    }
    assert [] == [(host, port) for host, port in addresses if port not in SERVICES[host]["expose"]]


def test_health_checks_ask_their_own_service():
    """A check that goes over the network asks a port of its own service."""
    for name, service in SERVICES.items():
        check = " ".join(service.get("healthcheck", {}).get("test", []))
        for host, port in re.findall(r"(localhost|[a-z]+-[a-z-]+)(?::|', )(\d+)", check):
            assert host in {"localhost", name}
            assert port in service["expose"], f"{name}: {port}"


def test_clusters_have_ids_of_their_own():
    """Discovery takes two clusters of one id for one: each says a Kafka UUID, 16 bytes in 22 characters."""
    ids = [SERVICES[name]["environment"]["CLUSTER_ID"] for name in ("kafka-a", "kafka-b")]
    assert 2 == len(set(ids))
    assert [16, 16] == [len(base64.urlsafe_b64decode(f"{each}==")) for each in ids]


def test_published_ports_differ_and_reach_a_listener():
    """No two services publish one port, and Kafka advertises outside what it publishes."""
    published = [port.split(":")[1] for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) == len(set(published))
    for name in ("kafka-a", "kafka-b"):
        outside = SERVICES[name]["ports"][0].rpartition(":")[2]
        environment = SERVICES[name]["environment"]
        assert f"OUTSIDE://:{outside}" in environment["KAFKA_LISTENERS"]
        assert (
            f"INSIDE://{name}:9092,OUTSIDE://127.0.0.1:{outside}" == environment["KAFKA_ADVERTISED_LISTENERS"]
        )


def commands(name: str) -> list[list[str]]:
    service = OURS[name]
    given = [service["command"]] if "command" in service else []
    return [*given, *([service["healthcheck"]["test"][1:]] if "healthcheck" in service else [])]


@pytest.mark.parametrize("name", OURS)
def test_commands_of_our_image_exist(name):
    """Every program is installed by the locked set, every Python line compiles, every Java class is in pyspark."""
    import pyspark

    jars = list(Path(pyspark.__file__).parent.glob("jars/spark-*.jar"))
    scripts = Path(sys.executable).parent
    for program, *words in commands(name):
        assert shutil.which(program, path=f"{scripts}:{os.environ['PATH']}"), program
        if program == "python":
            compile(words[1], name, "exec")
        for word in words:
            if re.fullmatch(r"org\.apache\.spark\.[\w.]+\.[A-Z]\w+", word):
                entry = word.replace(".", "/") + ".class"
                assert any(entry in zipfile.ZipFile(jar).namelist() for jar in jars), word


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
        assert "-Dspark.authenticate=true" in daemon["SPARK_DAEMON_JAVA_OPTS"]
    token = server["SPARK_CONNECT_AUTHENTICATE_TOKEN"]
    assert [token] * len(AIRFLOW) == [it["environment"]["SPARK_CONNECT_TOKEN"] for it in AIRFLOW.values()]
    master = (
        load(ROOT / "include/config/compose.properties", environ=ENVIRONMENT).flows["A->B"].copy.spark_master
    )
    assert ConnectAddress(here=False, token=True, tls=False) == ConnectAddress.of(master, {})
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
        assert (
            f"{PROJECT_IN_IMAGE}/include/config/compose.properties"
            == service["environment"]["TWINLOG_CONFIG"]
        )


def test_the_image_is_built_of_what_is_there():
    """Each COPY of the Dockerfile has its source, and its base is a Python that we support."""
    text = (ROOT / OURS["airflow-init"]["build"]["dockerfile"]).read_text()
    ignored = (ROOT / ".dockerignore").read_text().split()
    sources = [word for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert [] == [source for source in sources if not (ROOT / source).exists() or source in ignored]
    assert re.search(r"^FROM python:3\.1[123]\.\d+-slim-[a-z]+$", text, re.MULTILINE)


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


def test_the_database_address_is_the_databases():
    """User, host, port and database of Airflow's connection are those of the postgres service."""
    text = AIRFLOW["airflow-init"]["environment"]["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    url = urlsplit(re.sub(r"\$\{[^}]+\}", "password", text))
    postgres = SERVICES["postgres"]["environment"]
    expected = (postgres["POSTGRES_USER"], "postgres", postgres["POSTGRES_DB"])
    assert expected == (url.username, url.hostname, url.path.strip("/"))
