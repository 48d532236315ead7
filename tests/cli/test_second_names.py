"""Flows of one file that call one target by two names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinlog.cli.replication.claim import SecondNames
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.errors import TerminalError

A, B, C = (ClusterSettings(alias, "", ConnectionSettings(alias, ())) for alias in "ABC")
FLOW = FlowSettings(A, B)


def test_the_second_name_of_a_target_is_refused_before_anything_was_copied() -> None:
    """Other sources into it, and other targets, are flows of their own; asked again, the first is what it was."""
    names = SecondNames()
    for flow, target_id in [
        (FLOW, "b"),
        (replace(FLOW, source=C), "b"),
        (replace(FLOW, target=C), "c"),
        (FLOW, "b"),
    ]:
        names.refuse(flow, target_id)
    with pytest.raises(TerminalError, match="A->B and A->C are one flow") as caught:
        names.refuse(replace(FLOW, target=C), "b")
    assert "another-name" == caught.value.code
