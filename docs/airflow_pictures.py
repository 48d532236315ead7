"""Take the pictures of Airflow's own pages around a failover: the form of one, and its question with the facts.

Run it with the environment's Python, in the repository; it needs Java and Chromium (`.ci/browser`), and three minutes.
It starts two clusters, a warm Spark and an Airflow, copies records between them, and lets a planned failover wait for a
person.  The gate's pages on the way, not ready and ready, are kept in the folder that is named on the line, if one is:
docs/pictures.py takes the pictures of those.

    .venv/bin/python docs/airflow_pictures.py [FOLDER]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
sys.path[:0] = [str(ROOT), str(ROOT / "include")]

from bench import load  # noqa: E402
from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402

from twinlog.lab.demo.airflow_instance import COMPONENTS, TRIGGERER, AirflowInstance  # noqa: E402
from twinlog.lab.kafka.broker import EmbeddedKafka  # noqa: E402
from twinlog.spark.server import FOLDER_VARIABLE, start, stop  # noqa: E402

SOURCE, TARGET = "frankfurt", "dublin"
FLOW = f"{SOURCE}->{TARGET}"
TOPICS = {"orders": 3, "payments": 2}
CONFIGURATION = """\
clusters = {source.name}, {target.name}
{source.name}.bootstrap.servers = {source.bootstrap_servers}
{target.name}.bootstrap.servers = {target.bootstrap_servers}
{source.name}->{target.name}.enabled = true
{source.name}->{target.name}.topics = orders, payments
{source.name}->{target.name}.groups = billing, reports
{target.name}->{source.name}.enabled = false
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
twinlog.gate.free.disk.percent = 0
twinlog.reports.folder = {folder}/reports
"""
WIDE = {"width": 1280, "height": 1150}


def write(servers: str, first: int, end: int) -> None:
    """Write records to every partition."""
    producer = Producer({"bootstrap.servers": servers})
    for number in range(first, end):
        for topic, partitions in TOPICS.items():
            for partition in range(partitions):
                producer.produce(topic, b"%d" % number, partition=partition)
    producer.flush(30)


def commit(servers: str, group: str, topic: str, offset: int) -> None:
    """Let a group stand at an offset of every partition of a topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    places = [TopicPartition(topic, partition, offset) for partition in range(TOPICS[topic])]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def waiting(airflow: AirflowInstance, run: str) -> None:
    """Return once the run asks a person.  Raises SystemExit if it ends before that."""
    while True:
        states = {it["task_id"]: it["state"] for it in airflow.api.tasks("failover", run)}
        if states.get("approve") in {"deferred", "awaiting_input"}:
            return
        if "failed" in states.values():
            raise SystemExit(json.dumps(states, indent=1))
        time.sleep(2)


def picture(page: Any, name: str) -> None:
    """Take one, with few colours."""
    from PIL import Image

    page.wait_for_timeout(1500)
    page.screenshot(path=(path := IMAGES / f"{name}.png"))
    Image.open(path).convert("RGB").quantize(96).save(path, optimize=True)


def main(kept: Path | None) -> None:
    """Start all of it, take the pictures, and stop all of it."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="twinlog-pictures-") as name, ExitStack() as running:
        folder = Path(name)
        source, target = (running.enter_context(EmbeddedKafka(it)) for it in (SOURCE, TARGET))
        config = folder / "mm2.properties"
        config.write_text(CONFIGURATION.format(source=source, target=target, folder=folder))
        running.callback(stop, folder / "spark")
        start(folder / "spark")
        settings = {FOLDER_VARIABLE: str(folder / "spark")}
        airflow = AirflowInstance(
            folder / "airflow", config, settings=settings, components=(*COMPONENTS, TRIGGERER)
        )
        for topic, partitions in TOPICS.items():
            load.create_topic(source.bootstrap_servers, topic, partitions)
        write(source.bootstrap_servers, 0, 1000)
        commit(source.bootstrap_servers, "billing", "orders", 1000)
        commit(source.bootstrap_servers, "reports", "payments", 850)
        for words in (["run", "--once"], ["audit"]):
            line = [sys.executable, "-m", "twinlog", *words, "--config", str(config)]
            subprocess.run(line, env=airflow.environment, check=True)
        write(source.bootstrap_servers, 1000, 1040)
        line = [sys.executable, "-m", "twinlog", "gate", "--mode", "planned", "--config", str(config)]
        subprocess.run(line, env=airflow.environment, check=False)
        running.enter_context(airflow)
        airflow.wait_until_healthy()
        while "failover" not in airflow.api.dag_ids():
            time.sleep(1)
        run = airflow.api.trigger("failover", flow=FLOW, mode="planned")
        driver = running.enter_context(sync_playwright())
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        context = browser.new_context(viewport=WIDE)
        context.add_cookies([{"name": "_token", "value": airflow.api.token, "url": airflow.api.url}])
        page = context.new_page()
        page.goto(f"{airflow.api.url}/dags/failover")
        page.get_by_role("button", name="Trigger").first.click()
        page.get_by_text("Run Parameters").first.wait_for(timeout=60_000)
        page.get_by_text("Select Value").first.click(force=True)
        page.get_by_role("option", name=FLOW).first.click()
        picture(page, "airflow-failover-form")
        waiting(airflow, run)
        page.goto(f"{airflow.api.url}/dags/failover/runs/{run}/tasks/approve/required_actions")
        page.get_by_role("button", name="Approve").first.wait_for(timeout=60_000)
        picture(page, "airflow-approval")
        browser.close()
        pages = sorted((folder / "reports").glob("*/gate/*/gate.html"))
        for page_of, path in zip(("not-ready", "ready"), pages, strict=True):
            if kept is not None:
                shutil.copy(path, kept / f"{page_of}.html")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None)
