"""The demo without Airflow: `twinlog run --once`, again and again, while records flow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from twinlog.errors import TransientError
from twinlog.lab.demo.play import Cycle, DemoReport, Say, compare_all, describe, make_report, prepare, sums
from twinlog.lab.demo.stage import Machinery

STREAM_S = 20


def play(made: Machinery, say: Say) -> DemoReport:
    """Run cycles while records flow, and one more for what is left; then compare both sides.

    Raises TransientError if the producer or a cycle fails.
    """
    started = time.monotonic()
    stream = prepare(made.source.bootstrap_servers, say)
    stream.start()
    flowing = time.monotonic()
    cycles: list[Cycle] = []
    while time.monotonic() < flowing + STREAM_S:
        cycles.append(_told(cycle(made, len(cycles)), say))
    stream.stop()
    say(f"the stream has stopped after {stream.written:,} records; one more cycle takes what is left")
    cycles.append(_told(cycle(made, len(cycles)), say))
    say("reading both sides, record by record")
    return make_report(compare_all(made), cycles, time.monotonic() - started)


def _told(done: Cycle, say: Say) -> Cycle:
    say(describe(done))
    return done


def cycle(made: Machinery, number: int) -> Cycle:
    """Run one cycle as a process of its own.  Raises TransientError if it prints no report."""
    command = [sys.executable, "-m", "twinlog", "run", "--once", "--config", str(made.config)]
    done = subprocess.run(
        [*command, "--output", "json"],
        env={**os.environ, **made.variables},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    try:
        flow: dict[str, Any] = json.loads(done.stdout)["flows"][0]
    except (ValueError, LookupError):
        last = "".join(done.stderr.strip().splitlines()[-1:])
        raise TransientError(f"a cycle failed: {last}", code="demo") from None
    return Cycle(
        run_id=f"run_{number}",
        state="failed" if done.returncode else "success",
        records=flow["records"],
        seconds=flow["seconds"],
        copy_seconds=flow["copy_seconds"],
        by_topic=dict(sums(flow, "copied_records")),
        lag_by_topic=dict(sums(flow, "lag_records")),
        heartbeat_latency_ms=flow["heartbeat_latency_ms"],
    )
