"""A client's key: given to OpenSSL, which reads files alone, without a file that a disk keeps."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

import pytest

from twinlog.config.file.providers import Secret
from twinlog.config.security.connection import TlsSettings
from twinlog.errors import ConfigError
from twinlog.lab.kafka.certificates import Certificates, make_certificates
from twinlog.protocol.socket.login import context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def tls(certificates: Certificates, password: str) -> TlsSettings:
    return TlsSettings(
        Path(certificates.ca).read_text(),
        Path(certificates.client).read_text(),
        Secret(Path(certificates.client_encrypted_key).read_text()),
        Secret(password),
    )


def test_a_key_is_on_no_disk(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed meanwhile leaves none behind."""
    monkeypatch.setattr(tempfile, "mkstemp", lambda **_: pytest.fail("a temporary file"))
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    assert ssl.CERT_REQUIRED == context(tls(certificates, certificates.password)).verify_mode
    with pytest.raises(ConfigError, match="cannot be used"):
        context(tls(certificates, "wrong"))
    assert open_files == len(list(Path("/proc/self/fd").iterdir()))


def test_without_files_in_memory_it_is_in_a_temporary_one(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On macOS; it is gone at once."""
    context.cache_clear()
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    context(tls(certificates, certificates.password))
    assert [] == list(tmp_path.iterdir())
