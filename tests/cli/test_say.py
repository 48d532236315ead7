"""Who is at the terminal (twinlog.cli.render)."""

from __future__ import annotations

import os
import pwd

import pytest

from twinlog.cli.render import login


def test_a_container_s_user_without_a_name_is_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """No passwd entry, and no variable of the environment: a journal still says who it was."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert pwd.getpwuid(os.getuid()).pw_name == login()

    def unknown(number: int) -> None:
        raise KeyError(f"uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert f"uid {os.getuid()}" == login()
