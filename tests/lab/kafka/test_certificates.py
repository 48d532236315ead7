"""The small certificate authority.  Cost: half a second for all of it."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from twinlog.lab.kafka.certificates import Certificates, make_certificates
from twinlog.lab.kafka.java import find_java


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> dict:
    """A TLS handshake in memory; the certificate that the server saw of the client."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(ends)
    while waiting:
        end = waiting.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(end)
    return ends[1].getpeercert()


def contexts(certificates: Certificates) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.ca))
    server.load_cert_chain(certificates.server, certificates.server_key)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(certificates.ca))
    client.load_cert_chain(certificates.client, certificates.client_encrypted_key, certificates.password)
    return server, client


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_server_and_client_trust_each_other(certificates, host):
    """Both verify the other's certificate, by every address of this machine."""
    peer = handshake(*contexts(certificates), host)
    assert ((("commonName", "client"),),) == peer["subject"]


def test_another_host_is_refused(certificates):
    """The server's certificate is good for its own names only."""
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(*contexts(certificates), "kafka.example")


def test_both_stores_hold_the_same_key(certificates):
    """PEM and PKCS#12 are one identity in two forms."""
    pem_key = serialization.load_pem_private_key(certificates.client_key.read_bytes(), None)
    p12 = pkcs12.load_pkcs12(certificates.client_pkcs12.read_bytes(), certificates.password.encode())
    assert pem_key.private_numbers() == p12.key.private_numbers()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("store", "kind"),
    [
        ("server.p12", "PrivateKeyEntry"),
        ("client.p12", "PrivateKeyEntry"),
        ("truststore.p12", "trustedCertEntry"),
    ],
)
def test_java_reads_the_stores(certificates, store, kind):
    """Java's own keytool finds the entry and what it is good for."""
    keytool = Path(find_java().path).resolve().with_name("keytool")
    command = [
        keytool,
        "-list",
        "-keystore",
        certificates.folder / store,
        "-storepass",
        certificates.password,
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (True, True) == (kind in answer.stdout, "1 entry" in answer.stdout)
