"""Take the pictures of twinlog's own pages: overview and flow page of flows in four states, and given gate pages.

Run it with the environment's Python, in the repository; it needs Chromium (`.ci/browser`).  The pages are drawn by the
code that serves them, of flows that were made up; a gate's page is one that a gate wrote, named on the line.

    .venv/bin/python docs/pictures.py [gate-ready=PATH/gate.html ...]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "include")]

from seen_flow import FLOW, LEDGER, NOW, ORDERS, STATUS, cluster, large_flow, seen_flow  # noqa: E402

from twinlog.airflow.plugin.app import draw  # noqa: E402
from twinlog.airflow.plugin.flow_page import flow_page_of  # noqa: E402
from twinlog.airflow.plugin.overview import overview_of  # noqa: E402
from twinlog.airflow.plugin.reading import SeenFlow, SeenFlows  # noqa: E402
from twinlog.formats.ledger.gate import GateOutcome  # noqa: E402
from twinlog.formats.ledger.records import FlowPhase  # noqa: E402
from twinlog.formats.ledger.recovery import RecoveryRun, RunState  # noqa: E402
from twinlog.monitoring.readiness import Readiness  # noqa: E402
from twinlog.monitoring.status import PartitionStatus  # noqa: E402
from twinlog.state.ledger import Ledger  # noqa: E402

WIDE, NARROW = (1200, 760), (420, 900)
NEVER = (Readiness("planned"), Readiness("source-dead"))


def flows() -> dict[str, SeenFlow]:
    """Return a flow in each state, between clusters as people have them."""

    def named(source: str, target: str, seen: SeenFlow) -> SeenFlow:
        flow = replace(FLOW, source=cluster(source), target=cluster(target))
        assert seen.status is not None
        topics = tuple(replace(it, remote_topic=f"{source}.{it.topic}") for it in seen.status.topics)
        answers = tuple(
            GateOutcome(it.mode, it.ready is not False, round((NOW - 180) * 1000), it.failed, it.waived, "")
            for it in seen.status.readiness
            if it.ready is not None or it.since
        )
        return replace(
            seen,
            dag_id=f"replicate__{source}__{target}",
            flow=flow,
            status=replace(seen.status, flow=flow.name, topics=topics),
            ledger=replace(seen.ledger or Ledger(), outcomes=answers),
        )

    large = large_flow(12, 8)
    no = (
        Readiness("planned", False, 180.0, ("lag-records", "audit-age")),
        Readiness("source-dead", True, 180.0),
    )
    late = replace(STATUS, topics=(replace(ORDERS, rpo_seconds=95.0),), rpo_seconds=95.0, readiness=no)
    whole = replace(
        ORDERS, lag_records=1_000, rpo_seconds=3_620.0, partitions=(PartitionStatus(0, -1, 1_000, 1_000),)
    )
    waits = replace(STATUS, topics=(whole,), lag_records=1_000, rpo_seconds=3_620.0)
    new = replace(waits, has_run=False, cycle_age_seconds=None, readiness=NEVER)
    run = RecoveryRun(
        "failover-20270115T075200Z-1",
        "planned",
        RunState.PROMOTED,
        "jo",
        "jo",
        *(round((NOW - ago) * 1000) for ago in (480, 440, 440, 440)),
        at_risk_records=0,
        rpo_seconds=0.0,
    )
    equal = replace(ORDERS, lag_records=0, rpo_seconds=0.0, partitions=(PartitionStatus(0, 999, 1_000, 0),))
    away = replace(
        STATUS,
        state=FlowPhase.PROMOTED,
        topics=(equal,),
        lag_records=0,
        rpo_seconds=0.0,
        held="promoted by jo: failover, planned",
        readiness=(Readiness("planned", since=run.run), *NEVER[1:]),
    )
    return {
        "not-ready": named("lisbon", "porto", seen_flow(late)),
        "never-run": named("oslo", "bergen", seen_flow(new, Ledger())),
        "promoted": named("paris", "lyon", seen_flow(away, replace(LEDGER, recoveries=(run,)))),
        "ready": named("frankfurt", "dublin", large),
    }


def pages(found: dict[str, SeenFlow]) -> Iterator[tuple[str, str]]:
    """Yield each page with the name of its picture."""
    words = {"dags": "/dags/", "nonce": "n"}
    seen = SeenFlows(NOW, "mm2.properties", tuple(found.values()))
    yield "overview", draw("overview.html", overview_of(seen, NOW + 4), **words)
    for name, flow in found.items():
        yield f"flow-{name}", draw("flow.html", flow_page_of(flow, NOW + 4), **words)


def _parts(named: str) -> tuple[str, str, str]:
    return named.partition("=")


def main(gate_pages: list[str]) -> None:
    """Take every page light, dark and narrow."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    kept = ((name, Path(path).read_text(encoding="utf-8")) for name, _, path in map(_parts, gate_pages))
    every = [*pages(flows()), *kept]
    browser_path = (
        shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for name, text in every:
            place = Path(folder) / f"{name}.html"
            place.write_text(text, encoding="utf-8")
            for look, theme, size in (
                ("light", "light", WIDE),
                ("dark", "dark", WIDE),
                ("narrow", "light", NARROW),
            ):
                page = browser.new_page(color_scheme=theme, viewport={"width": size[0], "height": size[1]})
                page.goto(place.as_uri())
                page.screenshot(path=(picture := IMAGES / f"{name}-{look}.png"))
                page.close()
                Image.open(picture).convert("RGB").quantize(96).save(picture, optimize=True)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
