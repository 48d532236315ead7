"""Write the evidence of a failover or a failback: what was done and found, of which file, by which versions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from twinlog import clock
from twinlog.checks.risk import iso
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.gate.evidence import document_of, plain, versions
from twinlog.gate.record import write_document


def write(
    flow: FlowSettings,
    name: str,
    recovery: Mapping[str, Any],
    configuration: Path,
    configuration_sha256: str,
    key: Ed25519PrivateKey | None,
) -> tuple[str, str]:
    """Write the file of that name, signed if there is a key; return its path and its digest.

    Raises TerminalError `reports` if the folder of the reports cannot be written to.
    """
    payload: Any = plain({
        "made_at": iso(clock.now_ms()),
        "configuration": {"file": configuration.name, "sha256": configuration_sha256},
        "versions": versions(),
        "recovery": recovery,
    })
    try:
        path, digest = write_document(flow, name, document_of(payload, key))
    except OSError as error:
        raise TerminalError(
            f"the evidence cannot be written: {error}",
            hint="set twinlog.reports.folder to a folder that can be written to, and run it again",
            code="reports",
        ) from None
    return str(path), digest
