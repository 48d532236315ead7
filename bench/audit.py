"""The audit alone, without Spark, on real brokers: a full audit of a good copy, one lane in this process.

    python -m bench.audit ["1 KB" ...] [--profile] [--records N]

Prints records per CPU-second of this process, reading the state and remembering the outcome included.  MM2 copies
about 38,000 records of 1 KB, or 104,000 of 100 B, per CPU-second on the same machine (`make bench`).
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import tempfile
import time
import uuid
from pathlib import Path

from bench import load
from bench.lane import BROKER, InProcess, data_folder, flow_of
from bench.topics import KINDS, Kind
from twinlog.cluster.clusters import open_clusters
from twinlog.embedded.broker import EmbeddedKafka
from twinlog.steps import audit, copy, sync_topics
from twinlog.steps.audit_lane import LocalAuditRunner
from twinlog.steps.audit_plan import AuditMode, AuditRequest

DEFAULT = ("1 KB", "100 B")


def main() -> None:
    """Load each kind, copy it, audit the copy, say what that took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kinds", nargs="*", help=f"kinds of topics, or all; default: {', '.join(DEFAULT)}")
    parser.add_argument("--records", type=int, help="instead of each kind's own number")
    parser.add_argument("--profile", action="store_true", help="print the functions that take most")
    given = parser.parse_args()
    wanted = given.kinds or DEFAULT
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A", settings=BROKER) as source,
        EmbeddedKafka("B", settings=BROKER) as target,
    ):
        for kind in (kind for kind in KINDS if kind.name in wanted or "all" in wanted):
            measure(kind, given.records or kind.twinlog_records, Path(folder), source, target, given.profile)


def measure(
    kind: Kind, records: int, folder: Path, source: EmbeddedKafka, target: EmbeddedKafka, profiled: bool
) -> None:
    """Copy one kind, audit it and print a line."""
    topic = f"{kind.slug}-{uuid.uuid4().hex[:6]}"
    load.create(source.bootstrap_servers, kind, topic)
    load.fill(source.bootstrap_servers, kind, topic, records, data_folder(source))
    flow = flow_of(folder, source, target, topic)
    profile = cProfile.Profile() if profiled else None
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
        copied = copy.run(flow, clusters, InProcess(), run_id=uuid.uuid4().hex)
        began, cpu = time.monotonic(), time.process_time()
        asked = AuditRequest(AuditMode.FULL)
        if profile is None:
            result = audit.run(flow, clusters, LocalAuditRunner(), asked)
        else:
            result = profile.runcall(audit.run, flow, clusters, LocalAuditRunner(), asked)
        cpu, wall = time.process_time() - cpu, time.monotonic() - began
    assert result.equal and result.coverage == 1.0, result
    by_bytes = sum(it.equal_bytes for it in result.partitions)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{kind.name:18} {result.records:>9,} records audited  cpu {cpu:6.2f} s"
        f"  {result.records / cpu:>10,.0f} rec/cpu-s"
        f"  wall {wall:5.1f} s  {100 * by_bytes / result.records:3.0f} % as bytes"
        f"  (copied at {copied.records / copied.lane_cpu_seconds:,.0f} rec/cpu-s), {peak:.0f} MB peak",
        flush=True,
    )
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(20)
    load.delete_topics(source.bootstrap_servers, [topic])
    load.delete_topics(target.bootstrap_servers, [f"A.{topic}"])


if __name__ == "__main__":
    main()
