"""The benchmarks find what they measure, and their tables say it: nothing else runs them in CI."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import report
from bench.contenders import MM2, TUNED, TWINLOG
from bench.latency_parts import PARTS, Tick, Ways
from bench.peers import contenders, table
from bench.peers.contenders import CONFLUENT, FRANZ_GO, NotBuiltError, build, relays

ROOT = Path(__file__).parents[1]


def test_every_benchmark_can_be_imported() -> None:
    """Also after what it uses was moved."""
    files = [it.relative_to(ROOT).with_suffix("") for it in (ROOT / "bench").rglob("*.py")]
    names = sorted(".".join(it.parts) for it in files if not it.stem.startswith("__"))
    code = "; ".join(f"import {name}" for name in names)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)


def test_the_parts_of_a_record_add_up_to_its_way() -> None:
    """Also if it came during the commit before, or if the source's answer to the producer came after the fetch's."""
    ticks = [
        Tick((0.5, 0.9, 0.95, 0.96, 0.98, 1.0), {0: 10}),
        Tick((1.0, 1.02, 1.03, 1.05, 1.08, 1.1), {0: 13}),
    ]
    way = Ways(
        offset=np.array([10, 11, 12]),
        produced=np.array([0.97, 0.98, 1.00]),
        on_source=np.array([0.99, 1.01, 1.04]),
        seen=np.array([1.12, 1.12, 1.12]),
        on_target=np.zeros(3),
    )

    parts = way.parts(ticks, 0)

    assert (3, len(PARTS)) == parts.shape
    assert parts.sum(axis=1) == pytest.approx([0.15, 0.14, 0.12])
    assert parts[0] == pytest.approx([
        0.02,
        0.01,
        0.02,
        0.01,
        0.02,
        0.03,
        0.02,
        0.02,
    ])  # 10 ms for the commit before
    assert parts[2] == pytest.approx([0.03, 0, 0, 0, 0.02, 0.03, 0.02, 0.02])


def test_records_of_no_tick_have_no_parts() -> None:
    """The first tick began before the clock did, and what is behind the last was not committed."""
    ticks = [Tick((0.0,) * 6, {0: 10}), Tick((1.0,) * 6, {0: 13})]
    times = np.full(3, 0.5)
    way = Ways(np.array([9, 10, 13]), times, times, times + 1, times)

    assert 1 == len(way.parts(ticks, 0))


def copied(contender: str, *, cpu_s: float, wall_s: float, kind: str = "1 KB") -> dict[str, Any]:
    """A row of a copy of 1,000,000 records, a gigabyte."""
    bytes_of = {"read_bytes": 10**9, "written_bytes": 10**9}
    shares = {"jvm_cpu_s": 0.0, "driver_cpu_s": 0.0, "workers_cpu_s": cpu_s}
    of_all = {"contender": contender, "kind": kind, "repetition": 0, "records": 10**6, "memory_mib": 100.0}
    return {**of_all, **bytes_of, **shares, "cpu_s": cpu_s, "wall_s": wall_s, "worker_mib": 50.0}


class TestTheTablesOfRelays:
    COPIES = (
        copied(MM2.name, cpu_s=10.0, wall_s=8.0),
        copied(TWINLOG.name, cpu_s=0.5, wall_s=2.0),
        copied(CONFLUENT, cpu_s=20.0, wall_s=10.0),
        copied(FRANZ_GO, cpu_s=2.0, wall_s=1.0),
    )

    def test_rates_and_ratios(self) -> None:
        """Records per second of CPU time and of the clock, with twinlog's ratios; CPU-seconds for a terabyte."""
        lines = list(table.lines(self.COPIES))
        cpu = "| 1 KB | 50,000 | 500,000 | 100,000 | 2,000,000 | **40.0** | **4.0** | **20.0** |"
        wall = "| 1 KB | 100,000 | 1,000,000 | 125,000 | 500,000 | **5.0** | **0.5** | **4.0** |"
        terabyte = "| 1 KB | 20,000 | 2,000 | 10,000 | 500 |"
        assert [cpu, wall, terabyte] == [line for line in lines if line.startswith("| 1 KB |")]

    def test_a_relay_that_is_not_there(self) -> None:
        """It has no column; of a kind that it did not copy it has a dash."""
        more = [copied(TWINLOG.name, cpu_s=1.0, wall_s=1.0, kind="100 B")]
        lines = list(table.lines([*self.COPIES[:3], *more]))
        assert "| topic | records per CPU-s: confluent-kafka | MM2 4.3.1 | twinlog " in lines[0]
        assert "| 100 B | - | - | 1,000,000 | - | - |" in lines

    def test_none_without_relays(self) -> None:
        """The short form of the benchmark has no relays, and no table of them."""
        assert [] == list(table.lines(self.COPIES[:2]))

    def test_every_row_is_as_wide_as_its_heading(self) -> None:
        """Of all tables of the report."""
        copies = [*self.COPIES, copied(TUNED.name, cpu_s=5.0, wall_s=4.0)]
        document = {"machine": "", "starts": [], "copies": copies, "plain_relay": {1: 4e9}}
        text = report.markdown(document) + "\n" + "\n".join(table.lines(copies))
        tables = [
            [line.count("|") for line in part.splitlines() if "|" in line] for part in text.split("\n\n")
        ]
        assert {1} == {len(set(widths)) for widths in tables if widths}


def test_the_share_of_a_plain_relay() -> None:
    """Bytes written per CPU-second, of those that the plain relay of the same run passed on."""
    document = {"machine": "", "starts": [], "copies": [copied(TWINLOG.name, cpu_s=0.5, wall_s=1.0)]}
    (with_bound,) = _rows(
        report.markdown({**document, "plain_relay": {1: 3e9, 2: 4e9}}), "| 1 KB | 1,000,000 |"
    )
    (without,) = _rows(report.markdown({**document, "plain_relay": {}}), "| 1 KB | 1,000,000 |")
    assert ("50%", "-") == (with_bound.split(" | ")[9], without.split(" | ")[9])


def _rows(text: str, begin: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(begin)]


class TestARelayThatCannotBeBuilt:
    def test_without_go(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """It is left out with one line, and the others run."""
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(contenders, "_USUAL_PLACE", "/nowhere")
        assert [CONFLUENT] == [it.name for it in relays(tmp_path)]
        assert "franz-go is left out: there is no go on the PATH or in /nowhere\n" == capsys.readouterr().out

    def test_a_failed_build(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """The last line of the compiler says why."""
        go = tmp_path / "go"
        go.write_text("#!/bin/sh\necho first >&2; echo no such module >&2; exit 1\n")
        go.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
        with pytest.raises(NotBuiltError, match=r"^it cannot be built: no such module$"):
            build(tmp_path / "built")

    def test_it_is_built_once(self, tmp_path: Path) -> None:
        """What is there is taken."""
        (tmp_path / "franz-go-relay").touch()
        assert tmp_path / "franz-go-relay" == build(tmp_path)
