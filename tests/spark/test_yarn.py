"""The copy job on a real YARN: a ResourceManager and two NodeManagers, and each executor in a container of its own.

Costs 90 MB of jars once, and some minutes.  Executors run this machine's own Python; docs/howto/spark-clusters.md says
how an archive brings it along.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from spark_job import JOB, SCRIPTS, equal, prepared

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

CONF = {
    "spark.yarn.jars": f"local:{ivy_jar().parent}/*",  # else each run uploads 400 MB
    "spark.executor.instances": "2",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "768m",
    "spark.yarn.maxAppAttempts": "1",
    "spark.pyspark.python": sys.executable,
}

Submit = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of the configuration of a YARN that runs."""
    folder = tmp_path_factory.mktemp("yarn")
    conf, work = folder / "conf", folder / "work"
    conf.mkdir()
    work.mkdir()
    command = [str(find_java().path), "-Xmx512m", "--add-opens", "java.base/java.lang=ALL-UNNAMED"]
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path(JARS)]
    command += [str(Path(__file__).with_name("MiniYarn.java")), str(conf)]
    with (folder / "log").open("wb") as log:
        cluster = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=work)
    try:
        deadline = time.monotonic() + 180
        while not (conf / "yarn-site.xml").exists():
            assert cluster.poll() is None, (folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, "YARN did not start"
            time.sleep(0.5)
        yield conf
    finally:
        assert cluster.stdin is not None
        cluster.stdin.close()
        cluster.wait(60)


@pytest.fixture
def submit(hadoop: Path) -> Submit:
    """`submit(config, mode)` runs the job by spark-submit; return its exit code, and what it printed last."""

    def run(config: Path, mode: str, step: str = "copy") -> tuple[int, dict[str, Any]]:
        conf = {**CONF, "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable}
        name, more = str(config), ["--conf", "spark.driver.host=127.0.0.1"]
        if mode == "cluster":  # the driver runs in a container, and finds the file there
            name, more = config.name, ["--files", str(config)]
        command = [str(SCRIPTS / "spark-submit"), "--master", "yarn", "--deploy-mode", mode, *more]
        command += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        command += [str(JOB), json.dumps({"step": step, "config": name, "flow": "A->B"})]
        environment = os.environ | {
            "HADOOP_CONF_DIR": str(hadoop),
            "PATH": f"{SCRIPTS}:{os.environ['PATH']}",
        }
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=500, env=environment, check=False
        )
        lines = [it for it in done.stdout.splitlines() if it.startswith('{"twinlog"')]
        return done.returncode, json.loads(lines[-1])["twinlog"] if lines else {"said": done.stderr[-2000:]}

    return run


def test_lanes_are_spread_over_containers_and_proved(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, submit: Submit
) -> None:
    """In client mode: a lane for each executor, and an audit on them."""
    topic = unique_topic("yarn-client")
    config = prepared(tmp_path, cluster_a, cluster_b, topic)
    code, copied = submit(config, "client")
    assert (0, "done", 6000, 2) == (code, copied.get("state"), copied.get("records"), copied.get("lanes")), (
        copied
    )
    assert equal(cluster_a, cluster_b, topic)
    code, audit = submit(config, "client", "audit")
    assert (0, True, 6000) == (code, audit.get("equal"), audit.get("records")), audit


def test_the_driver_may_be_a_container_too(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, submit: Submit
) -> None:
    """Its exit code reaches who submitted it, its result does not: YARN keeps what it prints."""
    topic = unique_topic("yarn-cluster")
    code, said = submit(prepared(tmp_path, cluster_a, cluster_b, topic), "cluster")
    assert (0, True) == (code, equal(cluster_a, cluster_b, topic)), said
