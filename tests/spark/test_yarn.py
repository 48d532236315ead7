"""The copy job on a real YARN: HDFS, a ResourceManager, two NodeManagers, and each executor in a container of its own.

Costs 90 MB of jars once, and some minutes.  Nothing of twinlog is installed where containers run: they have an archive
of it, as docs/howto/spark-clusters.md says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from spark_job import JOB, RECORDS, SCRIPTS, equal, prepared

from lab import read
from twinlog.lab.demo.airflow_instance import AirflowInstance
from twinlog.lab.kafka.jars import JarSet, class_path, ivy_jar
from twinlog.lab.kafka.java import find_java

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1200)]

JARS = JarSet(
    "yarn-3.4.2",
    (
        ("org.apache.hadoop", "hadoop-client-minicluster", "3.4.2"),
        ("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
        ("javax.xml.bind", "jaxb-api", "2.2.11"),
        ("com.sun.xml.bind", "jaxb-impl", "2.2.3-1"),
        ("javax.activation", "activation", "1.1.1"),
        ("ch.qos.reload4j", "reload4j", "1.2.25"),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ),
)
"""The shaded cluster, and what its jar leaves out; Java 17 has no JAXB."""


DEFAULTS = """
spark.yarn.dist.archives hdfs:///executors.tar.gz#executors
spark.scheduler.maxRegisteredResourcesWaitingTime 10min
spark.pyspark.python ./executors/bin/python
spark.pyspark.driver.python {python}
spark.yarn.jars {jars}
spark.executor.instances 2
spark.executor.memory 512m
spark.driver.memory 640m
spark.yarn.am.memory 512m
spark.driver.host 127.0.0.1
"""
"""The page's lines; the others save each run an upload of 400 MB, and memory."""

SLOW = {"twinlog__bytes__per__second": "30000"}
"""A copy takes some twenty seconds: there is time to kill what does it."""


PACK = """
"$PYTHON" -m hatchling build -t wheel -d "$HERE" && "$PYTHON" -m venv "$HERE/executors"
"$SCRIPTS/uv" pip install -q --python "$HERE/executors" -c requirements.lock "$HERE"/*.whl pandas venv-pack setuptools
"$HERE/executors/bin/venv-pack" -q --prefix "$HERE/executors" --output "$HERE/executors.tar.gz"
"""
"""The page's commands, with the versions that are locked."""


@pytest.fixture(scope="module")
def archive(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and what it needs, but no Spark, which YARN brings."""
    folder = tmp_path_factory.mktemp("archive")
    places = {"PYTHON": sys.executable, "SCRIPTS": str(SCRIPTS), "HERE": str(folder)}
    subprocess.run(["sh", "-ec", PACK], cwd=repository, env=os.environ | places, check=True)
    return folder / "executors.tar.gz"


@dataclass(frozen=True)
class Yarn:
    """A YARN that runs: the variables by which Spark finds it and the archive, and its process."""

    variables: dict[str, str]
    process: subprocess.Popen[bytes]

    def submit(self, config: Path, mode: str, step: str = "copy") -> subprocess.Popen[bytes]:
        """Start spark-submit of the job, which writes beside its file; in cluster mode the driver, too, has the
        archive alone.
        """
        name, more = str(config), []
        if mode == "cluster":
            name, more = config.name, ["--files", str(config)]
            more += ["--conf", "spark.pyspark.driver.python=./executors/bin/python"]
        command = [str(SCRIPTS / "spark-submit"), "--master", "yarn", "--deploy-mode", mode, *more]
        command += [str(JOB), json.dumps({"step": step, "config": name, "flow": "A->B"})]
        environment = os.environ | self.variables | {"PATH": f"{SCRIPTS}:{os.environ['PATH']}"}
        with said(config).open("wb") as out:
            return subprocess.Popen(command, stdout=out, stderr=out, env=environment)

    def run(self, config: Path, mode: str, step: str = "copy") -> tuple[int, dict[str, Any]]:
        """Submit the job; return its exit code, and what it printed last."""
        return outcome(self.submit(config, mode, step), config)

    def containers(self, main: str) -> list[psutil.Process]:
        """The JVMs of containers that run this class."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        return [it for it in found if it.name() == "java" and any(main in word for word in it.cmdline())]


def said(config: Path) -> Path:
    """Where spark-submit writes for a configuration."""
    return config.with_suffix(".said")


def outcome(running: subprocess.Popen[bytes], config: Path) -> tuple[int, dict[str, Any]]:
    """Wait for a job; return its exit code, and what it printed last."""
    code, out = running.wait(500), said(config).read_text()
    lines = [it for it in out.splitlines() if it.startswith('{"twinlog"')]
    return code, json.loads(lines[-1])["twinlog"] if lines else {"said": out[-4000:]}


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Iterator[Yarn]:
    """A YARN of this module's own."""
    folder = tmp_path_factory.mktemp("yarn")
    conf, work = folder / "conf", folder / "work"
    conf.mkdir()
    work.mkdir()
    jars = f"local:{ivy_jar().parent}/*"
    defaults = DEFAULTS.format(python=sys.executable, jars=jars)
    (conf / "spark-defaults.conf").write_text(defaults)
    command = [str(find_java().path), "-Xmx512m", "--add-opens", "java.base/java.lang=ALL-UNNAMED"]
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path(JARS)]
    command += [str(Path(__file__).with_name("MiniYarn.java")), str(conf), str(archive)]
    with (folder / "log").open("wb") as log:
        cluster = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=work)
    try:
        deadline = time.monotonic() + 180
        while not (conf / "core-site.xml").exists():
            assert cluster.poll() is None, (folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, "YARN did not start"
            time.sleep(0.5)
        yield Yarn({"HADOOP_CONF_DIR": str(conf), "SPARK_CONF_DIR": str(conf)}, cluster)
    finally:
        assert cluster.stdin is not None
        cluster.stdin.close()
        cluster.wait(60)


def test_lanes_are_spread_over_containers_and_proved(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, yarn: Yarn
) -> None:
    """In client mode: a lane for each executor, and an audit on them."""
    topic = unique_topic("yarn-client")
    config = prepared(tmp_path, cluster_a, cluster_b, topic)
    code, copied = yarn.run(config, "client")
    assert (0, "done", 6000, 2) == (code, copied.get("state"), copied.get("records"), copied.get("lanes")), (
        copied
    )
    assert equal(cluster_a, cluster_b, topic)
    code, audit = yarn.run(config, "client", "audit")
    assert (0, True, 6000) == (code, audit.get("equal"), audit.get("records")), audit


def test_the_driver_may_be_a_container_too(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, yarn: Yarn
) -> None:
    """Its exit code reaches who submitted it, its result does not: YARN keeps what it prints."""
    topic = unique_topic("yarn-cluster")
    code, told = yarn.run(prepared(tmp_path, cluster_a, cluster_b, topic), "cluster")
    assert (0, True) == (code, equal(cluster_a, cluster_b, topic)), told


@pytest.mark.parametrize(
    ("mode", "victim"),
    [
        ("client", "YarnCoarseGrainedExecutorBackend"),
        ("client", "ExecutorLauncher"),
        ("cluster", "YarnCoarseGrainedExecutorBackend"),
        ("cluster", "ApplicationMaster"),
    ],
)
def test_a_container_killed_midway_loses_and_doubles_no_record(
    mode: str,
    victim: str,
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    yarn: Yarn,
) -> None:
    """Its lanes go on in others, behind a new fence; a killed driver is started anew by YARN."""
    topic = unique_topic("yarn-killed")
    config = prepared(tmp_path, cluster_a, cluster_b, topic, **SLOW)
    running = yarn.submit(config, mode)
    try:
        deadline = time.monotonic() + 300
        while not (copied := len(read(cluster_b, f"A.{topic}", 0))):
            assert running.poll() is None, outcome(running, config)
            assert time.monotonic() < deadline, "nothing is copied"
            time.sleep(0.5)
        yarn.containers(victim)[0].kill()
        code, told = outcome(running, config)
    finally:
        running.kill()
    assert copied < len(RECORDS)
    assert (0, True) == (code, equal(cluster_a, cluster_b, topic)), told


@pytest.mark.airflow
def test_the_dag_through_airflows_spark_provider(
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    yarn: Yarn,
) -> None:
    """Its tasks copy in containers; the connection says where they submit."""
    topic = unique_topic("yarn-dag")
    reports = str(tmp_path / "reports")
    config = prepared(tmp_path, cluster_a, cluster_b, topic, twinlog__reports__folder=reports)
    connection = json.dumps({"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "client"}})
    settings = yarn.variables | {"AIRFLOW_CONN_TWINLOG_SPARK": connection}
    alone = AirflowInstance(tmp_path / "airflow", config, settings=settings)
    alone.home.mkdir()
    alone.command("db", "migrate", timeout_s=400)
    command = [sys.executable, "-m", "airflow", "dags", "test", "replicate__A__B"]
    done = subprocess.run(
        command, env=alone.environment, capture_output=True, text=True, timeout=900, check=False
    )
    log = done.stdout + done.stderr
    assert "end task task_id=publish" in log, log
    assert "--master yarn" in log, log
    assert equal(cluster_a, cluster_b, topic)
