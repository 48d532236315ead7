"""A Kerberos login without a KDC; tests/integration/test_kerberos.py has one."""

from __future__ import annotations

import sys

import pytest

from twinlog.config.security.connection import KerberosSettings
from twinlog.errors import ConfigError
from twinlog.protocol.socket.kerberos import Exchange


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError) as caught:
        Exchange(KerberosSettings("kafka"), "broker", "A")
    assert caught.value.message.startswith("a login by Kerberos needs the library gssapi: ")
    assert caught.value.hint.startswith("pip install 'twinlog[kerberos]")
