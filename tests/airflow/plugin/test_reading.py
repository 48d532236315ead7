"""One reading for all viewers, in the background; and which files of the reports are pages."""

from dataclasses import replace
from pathlib import Path

from seen_flow import FLOW, NOW, cluster, large_flow, seen_flow

from twinlog.airflow.plugin.reading import Background, FlowReader, ReadConfiguration, Reader, SeenFlow
from twinlog.airflow.plugin.reports import kept_reports, page_at
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, FormatError


class Threads:
    """Work that was begun, and runs when the test says so."""

    def __init__(self) -> None:
        self.begun = []

    def start(self, work) -> None:
        self.begun.append(work)

    def run(self) -> None:
        works, self.begun = self.begun, []
        for work in works:
            work()


def test_clusters_are_asked_once_while_an_answer_is_fresh() -> None:
    """However many people look; and nobody waits for the answer."""
    threads, clock, asked = Threads(), [0.0], []

    def ask() -> int:
        asked.append(clock[0])
        return len(asked)

    kept = Background(ask, 5, clock=lambda: clock[0], start=threads.start)
    seen = [kept.get(), kept.get()]
    threads.run()
    for clock[0] in (0.0, 4.9, 5.0, 5.1):
        seen.append(kept.get())
    threads.run()
    seen.append(kept.get())

    assert [0.0, 5.1] == asked
    assert [None, None, 1, 1, 1, 1, 2] == seen


def test_an_answer_that_never_comes_is_asked_for_once() -> None:
    """One thread hangs, and not one per viewer."""
    threads, clock = Threads(), [0.0]
    kept = Background(lambda: 1, 5, clock=lambda: clock[0], start=threads.start)
    for clock[0] in (0.0, 10.0, 20.0):
        kept.get()
    assert 1 == len(threads.begun)


class FakeReader(FlowReader):
    """Has read a flow of 5,000 partitions, and counts how often it was asked to."""

    asked = 0
    made = 0

    def __init__(self, dag_id: str, flow: FlowSettings) -> None:
        super().__init__(dag_id, flow)
        FakeReader.made += 1

    def read(self) -> SeenFlow:
        FakeReader.asked += 1
        return large_flow(50, 100)


def test_a_hundred_viewers_are_one_reading() -> None:
    """Nothing is asked of a cluster for a viewer; a flow whose settings change gets a reader of its own."""
    FakeReader.asked = FakeReader.made = 0
    threads, flows = Threads(), {"replicate__A__B": FLOW}
    reader = Reader(lambda: ReadConfiguration(NOW, flows), FakeReader, threads.start, lambda: 0.0)
    assert reader.get().being_read
    threads.run()
    assert reader.get().being_read
    threads.run()
    pages = [reader.get() for _ in range(100)]

    assert [] == threads.begun
    assert (1, 1) == (FakeReader.made, FakeReader.asked)
    assert {5000} == {sum(len(it.partitions) for it in page.flows[0].status.topics) for page in pages}

    flows["replicate__A__B"] = FlowSettings(cluster("A"), cluster("C"))
    assert reader.get().being_read
    assert 2 == FakeReader.made


def test_configuration_that_cannot_be_used_is_said() -> None:
    """No flow, and the reason."""
    threads = Threads()
    bad = ReadConfiguration(NOW, {}, error="mm2.properties: no such file")
    reader = Reader(lambda: bad, FakeReader, threads.start)
    reader.get()
    threads.run()
    assert ("mm2.properties: no such file", (), False) == (
        reader.get().error,
        reader.get().flows,
        reader.get().being_read,
    )


class BrokenReader(FlowReader):
    """Raises what it is told to, or returns what it had."""

    raises: Exception | None = None

    def _read(self) -> SeenFlow:
        if self.raises is not None:
            raise self.raises
        return seen_flow()


class Kept:
    """A cluster whose connections are kept, as far as they are closed."""

    def __init__(self) -> None:
        self.brokers, self.closed = self, 0

    def close(self) -> None:
        self.closed += 1


def test_an_error_replaces_what_was_known() -> None:
    """A cluster away, a ledger of a newer version, a bug: shown with what to do, and gone once it is over; the
    connections of both clusters are closed.
    """
    reader = BrokenReader("replicate__A__B", FLOW)
    seen = [reader.read().status is not None]
    for reader.raises in (
        ClusterUnreachable("B does not answer", hint="start it"),
        FormatError("the ledger has version 2", hint="upgrade twinlog"),
        ValueError("odd"),
    ):
        found = reader.read()
        seen.append((found.status, found.ledger, found.error, found.hint))
    reader.raises, kept = None, Kept()
    reader._clusters = (kept, kept)
    reader._failed("B does not answer", "")
    seen.append(reader.read().status is not None)

    assert (2, ()) == (kept.brokers.closed, reader._clusters)
    assert [
        True,
        (None, None, "B does not answer", "start it"),
        (None, None, "the ledger has version 2", "upgrade twinlog"),
        (None, None, "ValueError: odd", "the log of the API server has the traceback"),
        True,
    ] == seen


def test_reports_are_pages_and_nothing_else(tmp_path: Path) -> None:
    """Evidence beside them, and files outside, are not shown whatever an address tries."""
    flow = replace(FLOW, gate=replace(FLOW.gate, reports=tmp_path))
    base = tmp_path / "A__B"
    for path in (
        "gate/2/gate.html",
        "gate/2/data-docs/index.html",
        "gate/1/gate.html",
        "validate/1/index.html",
    ):
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).write_text(path)
    (base / "evidence").mkdir()
    (base / "evidence" / "2.json").write_text("secret")
    (base / "evidence" / "2.html").write_text("secret")
    (base / "gate" / "2" / "notes.txt").write_text("secret")
    (tmp_path / "outside.html").write_text("secret")
    (base / "gate" / "2" / "link.html").symlink_to(tmp_path / "outside.html")

    pages = [path for report in kept_reports(flow) for _, path in report.pages]
    assert [
        "gate/2/gate.html",
        "gate/2/data-docs/index.html",
        "gate/1/gate.html",
        "validate/1/index.html",
    ] == pages
    assert pages == [page_at(flow, path) for path in pages]
    assert [None] * 9 == [
        page_at(flow, path)
        for path in (
            "evidence/2.json",
            "evidence/2.html",
            "gate/../evidence/2.html",
            "gate/2/notes.txt",
            "gate/../../outside.html",
            "gate//" + str(tmp_path / "outside.html"),
            "gate/2/link.html",
            "gate/2/\0.html",
            "gate",
        )
    ]
