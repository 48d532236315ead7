"""Write the evidence of a failover or a failback: what was done and found, of which file, by which versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlog import clock
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.gate.evidence import Seal
from twinlog.gate.record import write_document


def write(
    flow: FlowSettings,
    name: str,
    recovery: Mapping[str, Any],
    seal: Seal,
) -> tuple[str, str]:
    """Write the file of that name, sealed; return its path and its digest.

    Raises TerminalError `reports` if the folder of the reports cannot be written to.
    """
    try:
        path, digest = write_document(flow, name, seal.document(clock.now_ms(), recovery=recovery))
    except OSError as error:
        raise TerminalError(
            f"the evidence cannot be written: {error}",
            hint="set twinlog.reports.folder to a folder that can be written to, and run it again",
            code="reports",
        ) from None
    return str(path), digest
