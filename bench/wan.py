"""Measure a copy over distance: the source's brokers are 40 ms away each way, those of the target beside the copier.

    python -m bench.wan [--delay 40] [--tasks 2] [--megabytes 200] [--seconds 30] [--only twinlog]

Needs root and /dev/net/tun.  Each cluster has three brokers, three replicas, and a network namespace of its own.  A
process passes packets between their two TUN devices, each after the delay.  Nothing is lost and no rate is limited:
what is seen is what a round trip costs.  Packets hold up to 65,535 bytes, so connections start faster than over a real
line.  Contenders run in turn, with as many tasks or lanes as `--tasks`; MM2 and twinlog are followed, too.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Process
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench import latency, load, pages
from bench.contenders import MM2, TWINLOG, WARM, Contender
from bench.peers.contenders import FRANZ_GO, relays
from bench.process_tree import ProcessTree
from bench.side_by_side import LESS
from twinlog.lab.kafka import node, server_properties
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.protocol.brokers import Brokers

FAR, NEAR = "10.99.0.1", "10.99.0.2"
PARTITIONS, RECORD_BYTES = 12, 1000
PACKET_BYTES = 65_535
RATE = 500
"""Records a second that are followed: with the default sockets of brokers, 5,000 are more than the line carries."""

GIVE_UP_AFTER_S = 300
BUILT = Path("bench-results")
"""Where the relay in Go is built, and found again inside the namespace."""

_SAFE = {"min.insync.replicas": "2", "retention.ms": "-1"}

Row = dict[str, Any]


def main() -> None:
    """Measure each contender, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--delay", type=float, default=40.0, help="each way, ms")
    parser.add_argument("--tasks", type=int, default=2, help="tasks of MM2, lanes of twinlog")
    parser.add_argument("--megabytes", type=int, default=200, help="of each backlog")
    parser.add_argument("--seconds", type=float, default=30, help="of following")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--only", help="one contender")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    pages.add_arguments(parser)
    given = parser.parse_args()
    if given.serve:
        serve()
    elif given.inside:
        inside(given)
    else:
        relays(BUILT)  # built here, from where modules can be fetched
        with line(given.delay / 1000):
            subprocess.run([*within("wan-b"), *sys.argv[1:], "--inside"], check=True)


def within(namespace: str) -> list[str]:
    """Return the words that run this module in a namespace."""
    return ["ip", "netns", "exec", namespace, sys.executable, "-m", "bench.wan"]


# --- the line --------------------------------------------------------------------------------------------------


@contextmanager
def line(seconds: float) -> Iterator[None]:
    """Make both namespaces, and the line between them, `seconds` long each way."""
    names = {"wan-a": (FAR, NEAR), "wan-b": (NEAR, FAR)}
    for name in names:
        _run("ip", "netns", "add", name)
    try:
        ends = []
        for name, (here, there) in names.items():
            ends.append(_tun(name))
            _run("ip", "link", "set", name, "netns", name)
            inner = ("ip", "-n", name)
            _run(*inner, "link", "set", "lo", "up")
            _run(*inner, "link", "set", name, "mtu", str(PACKET_BYTES), "txqueuelen", "2000", "up")
            _run(*inner, "addr", "add", here, "peer", there, "dev", name)
        shuttle = Process(target=carry, args=(*ends, seconds), daemon=True)
        shuttle.start()
        yield
        shuttle.terminate()
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


def _tun(name: str) -> int:
    """Open a TUN device without packet information."""
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, 0x400454CA, struct.pack("16sH", name.encode(), 0x0001 | 0x1000))  # TUNSETIFF
    return end


def carry(one: int, other: int, seconds: float) -> None:
    """Pass packets from one end to the other, each `seconds` after it came (a process of its own)."""
    os.nice(-15)  # however busy the machine is
    over = {one: other, other: one}
    under_way: dict[int, deque[tuple[float, bytes]]] = {one: deque(), other: deque()}
    while True:
        dues = [queue[0][0] for queue in under_way.values() if queue]
        wait = max(0.0, min(dues) - time.monotonic()) if dues else None
        for end in select.select([one, other], [], [], wait)[0]:
            for packet in _waiting(end):
                under_way[over[end]].append((time.monotonic() + seconds, packet))
        now = time.monotonic()
        for end, queue in under_way.items():
            while queue and queue[0][0] <= now:
                os.write(end, queue.popleft()[1])


def _waiting(end: int) -> Iterator[bytes]:
    try:
        while True:
            yield os.read(end, PACKET_BYTES)
    except BlockingIOError:
        return


# --- the source's side -----------------------------------------------------------------------------------------


@contextmanager
def cluster(name: str, address: str, folder: Path) -> Iterator[EmbeddedKafka]:
    """Run three brokers that listen on `address`."""
    for module in (server_properties, node):
        module.HOST = address  # type: ignore[attr-defined]
    with EmbeddedKafka(name, folder / name, nodes=3) as brokers:
        yield brokers


def serve() -> None:
    """Run the source, and do what is asked, a line of JSON each: create and fill topics, stream to them."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-wan-") as folder,
        cluster("A", FAR, Path(folder)) as brokers,
    ):
        servers = brokers.bootstrap_servers
        print(json.dumps(servers), flush=True)
        streaming = None
        for asked in map(json.loads, sys.stdin):
            what, topic = asked["do"], asked["topic"]
            if what == "create":
                create(servers, topic, asked["partitions"])
            elif what == "fill":
                fill(servers, topic, asked["records"])
            elif what == "stream":
                over = context.Event()
                streaming = context.Process(target=stream, args=(servers, topic, over))
                streaming.start()
            elif streaming is not None:
                over.set()
                streaming.join()
            print(json.dumps("done"), flush=True)


def create(servers: str, topic: str, partitions: int) -> None:
    """Create a topic with three replicas."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 3, config=_SAFE)])[topic].result(30)
    time.sleep(1)


def fill(servers: str, topic: str, records: int) -> None:
    """Write records in batches of about 256 KB."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": servers, "batch.size": 256 << 10, "linger.ms": 200, "acks": "all"}
    producer = Producer(settings)
    value = os.urandom(RECORD_BYTES)
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=number // 250 % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def stream(servers: str, topic: str, over: Any) -> None:
    """Produce at RATE until told to stop (a process of its own)."""
    latency.RATE = RATE
    latency.PER_TICK = 5
    latency.stream(servers, topic, over)


class Source:
    """The far side, asked from the near one."""

    def __init__(self) -> None:
        words = [*within("wan-a"), "--serve"]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.bootstrap_servers = self._answer()

    def ask(self, what: str, topic: str = "", **more: int) -> None:
        """Have something done, and wait for it."""
        assert self._process.stdin is not None
        print(json.dumps({"do": what, "topic": topic, **more}), file=self._process.stdin, flush=True)
        self._answer()

    def close(self) -> None:
        """End its brokers."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        while not (text := self._process.stdout.readline()).startswith('"'):
            assert text, "the source's side ended"
            print(text, end="")
        return json.loads(text)


# --- the target's side -----------------------------------------------------------------------------------------


def inside(given: argparse.Namespace) -> None:
    """Measure, in the namespace of the target."""
    source = Source()
    rows: list[Row] = []
    try:
        with (
            tempfile.TemporaryDirectory(prefix="twinlog-wan-") as folder,
            cluster("B", NEAR, Path(folder)) as target,
        ):
            contenders = [MM2, *(it for it in relays(BUILT) if it.name == FRANZ_GO), TWINLOG]
            chosen = [it for it in contenders if given.only in {None, it.name}]
            for repetition in range(given.repetitions):
                for contender in chosen:
                    rows.append(measure(contender, source, target, Path(folder), repetition, given))
                    print(rows[-1], flush=True)
    finally:
        source.close()
    pages.write("wan", rows, markdown(rows, given), given)


def measure(
    contender: Contender,
    source: Source,
    target: EmbeddedKafka,
    folder: Path,
    repetition: int,
    given: argparse.Namespace,
) -> Row:
    """Let a contender follow a stream, until all brokers are warm, and copy a backlog; return ms, and seconds."""
    stem = f"{contender.alias}{repetition}"
    warm, bulk, live = (f"{stem}-{it}" for it in (WARM, "bulk", "live"))
    for topic, partitions in ((warm, 1), (bulk, PARTITIONS), (live, latency.PARTITIONS)):
        source.ask("create", topic, partitions=partitions)
        if not contender.creates_topics:
            create(target.bootstrap_servers, contender.remote(topic), partitions)
    source.ask("fill", warm, records=1)
    tasks = f"tasks.max = {given.tasks}\ntwinlog.lanes = {given.tasks}\n" if contender.creates_topics else ""
    places = SimpleNamespace(bootstrap_servers=source.bootstrap_servers)
    properties = contender.properties(places, target, f"{stem}-.*").replace("factor = 1", "factor = 3")  # type: ignore[arg-type]
    properties = properties.replace("tasks.max = 2\n", "") + tasks
    with (
        contender.running(properties, folder / stem) as tree,
        Brokers(load.settings(target.bootstrap_servers)) as at,
    ):
        _until_visible(at, contender.remote(warm), 1)
        source.ask("stream", live)
        row = followed(target.bootstrap_servers, contender.remote(live), given.seconds)
        source.ask("stop")
        row |= backlog(contender, source, at, bulk, tree, given)
    return {"contender": contender.name, **row}


def followed(servers: str, topic: str, seconds: float) -> Row:
    """Watch a stream until its median has not fallen three times in a row (ms): fresh brokers are slow."""
    best: list[float] = []
    no_less = 0
    while no_less < 3:
        delays = sorted(it.seen - it.produced for it in latency.watch(servers, topic, seconds))
        if not delays:
            raise SystemExit(f"nothing came to {topic} for {seconds:g} s")
        at = [delays[min(int(len(delays) * share), len(delays) - 1)] for share in latency.SHARES]
        print(f"p50 {1000 * at[0]:.0f} ms", flush=True)
        no_less = no_less + 1 if best and at[0] > LESS * best[0] else 0
        best = min(best or at, at)
    return {f"p{share * 100:g}": round(1000 * it) for share, it in zip(latency.SHARES, best, strict=True)}


def backlog(
    contender: Contender,
    source: Source,
    target: Brokers,
    topic: str,
    tree: ProcessTree,
    given: argparse.Namespace,
) -> Row:
    """Pause the contender while the topic is filled, then take the time until everything is visible."""
    records = given.megabytes * 1_000_000 // RECORD_BYTES
    tree.pause()
    try:
        source.ask("fill", topic, records=records)
    finally:
        before, began = tree.cpu_s(), time.monotonic()
        tree.resume()
    over, connections = _until_visible(target, contender.remote(topic), records)
    cpu = tree.cpu_s() - before
    return {
        "seconds": round(over - began, 2),
        "megabytes_a_second": round(given.megabytes / (over - began), 2),
        "cpu_s": round(cpu.total(), 2),
        "connections": connections,
    }


def _until_visible(target: Brokers, topic: str, records: int) -> tuple[float, int]:
    """Return when the last record became visible, and the most connections to the source on which bytes moved."""
    began = still = time.monotonic()
    before = _received()
    last, most = -1, 0
    while True:
        visible = sum(load.visible_ends(target, topic).values())
        now = time.monotonic()
        if visible != last:
            last, still = visible, now
            moved = [size - before.get(port, 0) for port, size in _received().items()]
            most = max(most, sum(size > 1_000_000 for size in moved))
        if visible >= records and (records == 1 or now - still > 2):
            return still, most
        if now - began > GIVE_UP_AFTER_S:
            raise SystemExit(f"only {visible} of {records} records came to {topic}")
        time.sleep(0.05)


def _received() -> dict[str, int]:
    """Return the bytes received on each connection to the source, by its address here."""
    words = ["ss", "-tniHO", "dst", FAR]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [(line.split()[3], line.partition("bytes_received:")[2].split()) for line in lines]
    return {place: int(size[0]) for place, size in found if size}


def markdown(rows: list[Row], given: argparse.Namespace) -> str:
    """Return a table."""
    lines = [
        f"{given.delay:g} ms each way between the source and the rest; three brokers and three replicas on either side;"
        f" {given.megabytes} MB in {PARTITIONS} partitions, then {RATE:,} records of 1 KB a second in"
        f" {latency.PARTITIONS} partitions for {given.seconds:g} s; {given.tasks} tasks or lanes:",
        "",
        "| | MB/s | connections | CPU-s | follow: p50 ms | p95 | p99 |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = [
            row["megabytes_a_second"],
            row["connections"],
            row["cpu_s"],
            row["p50"],
            row["p95"],
            row["p99"],
        ]
        lines.append(f"| {row['contender']} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
