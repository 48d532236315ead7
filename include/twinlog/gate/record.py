"""Keep an answer of the gate: page, Data Docs and evidence in the flow's reports folder, the outcome in the ledger."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from twinlog.checks.ages import iso
from twinlog.checks.data_docs import write_data_docs
from twinlog.checks.report_folder import new_report, reports_folder
from twinlog.cluster.api import Cluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.formats.ledger.gate import GateOutcome
from twinlog.gate.ask import GateAnswer
from twinlog.gate.evidence import document_of, key_digest, payload_of
from twinlog.gate.page import page_of
from twinlog.state.ledger import write_ledger


@dataclass(frozen=True, slots=True)
class Kept:
    """Where an answer was kept; `signed_by` is the digest of the key, "" if the evidence is not signed."""

    evidence: str
    page: str
    evidence_sha256: str
    signed_by: str


def keep(
    flow: FlowSettings,
    target: Cluster,
    answer: GateAnswer,
    *,
    configuration: Path,
    configuration_sha256: str,
    key: Ed25519PrivateKey | None,
) -> Kept:
    """Write page, Data Docs and evidence, and note the outcome in the ledger if the flow has one.

    Evidence is never deleted.  Raises TerminalError `reports` if the folder cannot be written to.
    """
    result = answer.result
    payload = payload_of(
        result,
        at=iso(result.at_ms),
        configuration=configuration.name,
        configuration_sha256=configuration_sha256,
    )
    text = document_of(payload, key)
    digest = hashlib.sha256(text.encode()).hexdigest()
    signed_by = key_digest(key.public_key()) if key is not None else ""
    try:
        folder = new_report(flow, "gate", result.mode.value, result.at_ms)
        evidence = reports_folder(flow, "evidence") / f"{folder.name}.json"
        evidence.parent.mkdir(parents=True, exist_ok=True)
        evidence.write_text(text, encoding="utf-8")
        docs = ""
        if answer.validated:
            title = f"{flow.name}, gate {result.mode.value}, {iso(result.at_ms)}"
            docs = write_data_docs(folder / "data-docs", title, answer.validated).name
        page = folder / "gate.html"
        shown = page_of(
            result, evidence=evidence.name, signed_by=signed_by, data_docs=docs and f"data-docs/{docs}"
        )
        page.write_text(shown, encoding="utf-8")
    except OSError as error:
        raise TerminalError(
            f"the gate's report cannot be written: {error}",
            hint="set twinlog.reports.folder to a folder that can be written to",
            code="reports",
        ) from None
    note(flow, target, answer, digest)
    return Kept(str(evidence), str(page), digest, signed_by)


def note(flow: FlowSettings, target: Cluster, answer: GateAnswer, evidence_sha256: str) -> None:
    """Note the outcome in the ledger; a flow that never ran has no ledger, and the gate does not create one."""
    if target.describe_topics([flow.ledger_topic]).refused:
        return
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
