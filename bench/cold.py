"""The cold cost: one copy by spark-submit, JVM start and all, of 1 GB and of 1 MB."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import load
from bench.contenders import CORES, TWINLOG
from bench.process_tree import ProcessTree
from bench.side_by_side import Clusters
from bench.topics import Kind
from twinlog.cluster.clusters import open_clusters
from twinlog.config.load import load as load_configuration
from twinlog.steps import sync_topics

JOB = Path(__file__).parent.parent / "jobs" / "replicate_partitions.py"


def run(clusters: Clusters, folder: Path, megabytes: tuple[int, ...] = (1000, 1)) -> Iterator[dict[str, Any]]:
    """Yield a row for each size."""
    for size in megabytes:
        topic = f"cold-{uuid.uuid4().hex[:6]}"
        kind = Kind("cold", 1000, records_per_batch=0 if size > 10 else 50)
        load.create(clusters.source.bootstrap_servers, kind, topic)
        load.fill(clusters.source.bootstrap_servers, kind, topic, size * 1000, clusters.source_data)
        config = folder / f"{topic}.properties"
        config.write_text(TWINLOG.properties(clusters.source, clusters.target, topic))
        flow = load_configuration(config).flows["A->B"]
        with open_clusters(flow) as both:
            sync_topics.run(flow, both)
        command = [
            Path(sys.executable).with_name("spark-submit"),
            *("--master", f"local[{CORES}]", JOB, "--config", config, "--flow", "A->B"),
        ]
        began = time.monotonic()
        with (
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            ) as process,
            ProcessTree(process.pid) as tree,
        ):
            output, _ = process.communicate()
            cpu = sum(tree.cpu_s().values())
        copied = json.loads(output.strip().splitlines()[-1])["twinlog"]
        yield {
            "bytes": copied["bytes"],
            "records": copied["records"],
            "wall_s": time.monotonic() - began,
            "cpu_s": cpu,
            "lane_cpu_s": copied["lane_cpu_seconds"],
        }
