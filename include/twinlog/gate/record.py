"""Keep an answer of the gate: page, Data Docs and evidence in the flow's reports folder, the outcome in the ledger.

Evidence of a failover, a failback or a drill tells what was done and found, of which file, by which versions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, Template

from twinlog import clock
from twinlog.audit.coverage import told
from twinlog.cluster.api import Cluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.formats.ledger.gate import GateOutcome
from twinlog.gate.accepting import NO_QUESTION, command, keep_shown
from twinlog.gate.answer import GateCheck, GateResult
from twinlog.gate.ask import GateAnswer
from twinlog.gate.evidence import Seal
from twinlog.grouped import grouped
from twinlog.jsonable import Json, to_json
from twinlog.judge.data_docs import new_report, reports_folder, write_data_docs
from twinlog.judge.observed import WHAT_TO_DO
from twinlog.state.ledger import write_ledger
from twinlog.visible import listed

UNKNOWN = "not known"


_SECTIONS: Iterable[tuple[str, str, Callable[[GateCheck], object]]] = (
    ("Forbids a failover", "bad", lambda check: check.blocks),
    ("Accepted", "bad", lambda check: check.waived),
    ("Only warns", "warn", lambda check: check.warns),
    ("Holds", "good", lambda check: check.passed and check.applies),
    ("Does not apply", "soft", lambda check: not check.applies),
)


def page_of(result: GateResult, *, evidence: str, signed_by: str, data_docs: str = "") -> str:
    """Draw the page.

    `evidence` is the file's name.  `signed_by` is the key's digest, "" if the evidence is not signed.
    """
    return _template().render(
        result=result,
        no_question=NO_QUESTION,
        what_to_do=WHAT_TO_DO,
        sections=[
            (title, tone, len(checks), _alike(checks))
            for title, tone, of in _SECTIONS
            if (checks := [check for check in result.checks if of(check)])
        ],
        evidence=evidence,
        signed_by=signed_by,
        data_docs=data_docs,
    )


def _alike(checks: Iterable[GateCheck]) -> list[GateCheck]:
    """Put checks that say the same together: a source that is away keeps sixty of them from being asked."""
    by_message = grouped((check.message, check) for check in checks)
    return [replace(of[0], name=listed([check.name for check in of])) for of in by_message.values()]


def moment(milliseconds: int | None) -> str:
    """Write a time, None for one that never comes."""
    if milliseconds is None:
        return "withdrawn"
    return clock.iso(milliseconds).replace("T", " ").replace("+00:00", " UTC")


def duration(seconds: float | None) -> str:
    """Write a span of time, or that it is unknown."""
    if seconds is None:
        return UNKNOWN
    for limit, length, unit in ((1, 0.001, "ms"), (120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds / 86_400:,.0f} d"


def number(count: int | None) -> str:
    """Write a count, or that it is unknown."""
    return UNKNOWN if count is None else f"{count:,}"


def share(part: int, whole: int) -> str:
    """Write a share in percent; a rounded share never becomes 100 %, nor does a share of nothing."""
    return f"{int(1000 * part / whole) / 10:.1f} %" if whole else "nothing"


@cache
def _template() -> Template:
    # Topics and groups may have any name: everything is escaped.
    text = files(__package__).joinpath("gate_page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "moment": moment,
        "duration": duration,
        "number": number,
        "why": told,
        "command": command,
    }
    environment.globals["share"] = share
    return environment.from_string(text)


@dataclass(frozen=True, slots=True)
class Kept:
    """Tell where an answer was kept; `signed_by` is the digest of the key, "" if the evidence is not signed.

    `seen` is the name under which all that forbids a failover can be accepted, "" if nothing does.
    """

    evidence: str
    page: str
    evidence_sha256: str
    signed_by: str
    seen: str = ""


def keep(flow: FlowSettings, target: Cluster, answer: GateAnswer, seal: Seal) -> Kept:
    """Write page, Data Docs and evidence, and note the outcome in the ledger if the flow has one.

    Evidence is never deleted.  Raises TerminalError `reports` if the folder cannot be written to.
    """
    result = answer.result
    text = seal.document(result.at_ms, gate=to_json(result))
    with into_reports("the gate's report"):
        folder = new_report(flow, "gate", result.mode.value, result.at_ms)
        evidence, digest = _write_document(flow, folder.name, text)
        docs = ""
        if answer.validated:
            title = f"{flow.name}, gate {result.mode.value}, {clock.iso(result.at_ms)}"
            docs = write_data_docs(folder / "data-docs", title, answer.validated).name
        page = folder / "gate.html"
        shown = page_of(
            result, evidence=evidence.name, signed_by=seal.signed_by, data_docs=docs and f"data-docs/{docs}"
        )
        page.write_text(shown, encoding="utf-8")
    seen = note(flow, target, answer, digest)
    return Kept(str(evidence), str(page), digest, seal.signed_by, seen)


def keep_run(flow: FlowSettings, name: str, recovery: Json, seal: Seal) -> tuple[str, str]:
    """Write the evidence of a failover, a failback or a drill, sealed; return its path and its digest.

    Raises TerminalError `reports` if the folder of the reports cannot be written to.
    """
    with into_reports("the evidence"):
        path, digest = _write_document(flow, name, seal.document(clock.now_ms(), recovery=recovery))
    return str(path), digest


@contextmanager
def into_reports(what: str) -> Iterator[None]:
    """Raise TerminalError `reports` if a file cannot be written: into the folder of the reports it was to go."""
    try:
        yield
    except OSError as error:
        raise TerminalError(
            f"{what} cannot be written: {error}",
            "set twinlog.reports.folder to a folder that can be written to, and run it again",
            code="reports",
        ) from None


def _write_document(flow: FlowSettings, name: str, text: str) -> tuple[Path, str]:
    """Write evidence by this name into the reports folder; return its path and digest, hexadecimal.  Raises OSError."""
    path = reports_folder(flow, "evidence") / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path, hashlib.sha256(text.encode()).hexdigest()


def note(flow: FlowSettings, target: Cluster, answer: GateAnswer, evidence_sha256: str) -> str:
    """Note the outcome in the ledger; return the name of what forbids a failover, "" if nothing does.

    A flow that never ran has no ledger, and the gate does not create one.
    """
    if target.describe_topics([flow.ledger_topic]).refused:
        return ""
    result = answer.result
    outcome = GateOutcome(
        mode=result.mode.value,
        ready=result.ready,
        at_ms=result.at_ms,
        failed=result.blocking,
        waived=result.waived,
        evidence_sha256=evidence_sha256,
    )
    write_ledger(flow, target, [outcome])
    return keep_shown(flow, target, result.mode.value, result.amounts) if result.amounts else ""
