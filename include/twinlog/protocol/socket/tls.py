"""Set up TLS for twinlog's sockets, from PEM texts."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

from twinlog.config.file.secret import reveal
from twinlog.config.security.connection import TlsSettings
from twinlog.errors import ConfigError


def context(tls: TlsSettings) -> ssl.SSLContext:
    """Build a client context that verifies the broker's chain and, unless switched off, its host name.

    Raises ConfigError if a certificate or key cannot be used; the message shows neither key nor password.
    """
    result = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    result.check_hostname = tls.verify_hostname
    try:
        if tls.ca_pem is None:
            result.load_default_certs()
        else:
            result.load_verify_locations(cadata=tls.ca_pem)
        if tls.certificate_pem is not None and tls.key_pem is not None:
            _load_client_certificate(result, tls.certificate_pem, reveal(tls.key_pem), tls)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the TLS certificates or key cannot be used: {error}", code="tls") from None
    return result


def _load_client_certificate(context: ssl.SSLContext, certificate: str, key: str, tls: TlsSettings) -> None:
    """Load the client certificate: OpenSSL reads keys only from files, so a private temporary file is written."""
    handle, name = tempfile.mkstemp(prefix="twinlog-", suffix=".pem")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(certificate + "\n" + key)
        password = reveal(tls.key_password) if tls.key_password is not None else ""
        context.load_cert_chain(name, password=password)
    finally:
        Path(name).unlink()
