"""A real Kerberos realm: MIT's KDC in a folder of its own, on a free port of 127.0.0.1, with principals and keytabs.

Two brokers in it, whose clients log in by GSSAPI, and files of a flow between them.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from twinlog.lab.kafka.broker import EmbeddedKafka, quick_start
from twinlog.lab.kafka.jars import KAFKA_VERSION

REALM = "TWINLOG.TEST"
KRB5_LOGIN = "com.sun.security.auth.module.Krb5LoginModule required"
BROKER = "kafka/127.0.0.1"
LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL")


def missing() -> str:
    """Say what this machine lacks for a realm, or nothing."""
    programs = [it for it in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit") if not _program(it)]
    lacking = programs + [it for it in ("gssapi",) if find_spec(it) is None]
    return f"no {', '.join(lacking)} here (.ci/kerberos fetches it)" if lacking else ""


class Realm:
    """A realm with its KDC; `variables` are the environment by which MIT's programs and library find it."""

    def __init__(self, folder: Path, *, ticket_life: str = "10h", name: str = REALM) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self.folder = name, folder
        self.config = folder / "krb5.conf"
        self.variables = {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder}/ccache",
        }
        self.port = _free_port()
        self.config.write_text(
            f"[libdefaults]\n default_realm = {name}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            f" dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
            f" ticket_lifetime = {ticket_life}\n"
            f"[realms]\n {name} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n"
        )
        (folder / "kdc.conf").write_text(
            f"[realms]\n {name} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n"
            f"  acl_file = {folder}/kadm5.acl\n  kdc_listen = 127.0.0.1:{self.port}\n"
            f"  kdc_tcp_listen = 127.0.0.1:{self.port}\n  max_life = {ticket_life}\n }}\n"
        )

    def run(self, program: str, *words: str, **more: str) -> str:
        """Run one of MIT's programs in this realm, and return what it prints."""
        done = subprocess.run(
            [_program(program), *words],
            env={**os.environ, **self.variables, **more},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def keytab(self, principal: str) -> Path:
        """Add a principal with a random key, and return a keytab with it."""
        path = self.folder / f"{principal.replace('/', '-')}.keytab"
        self.run("kadmin.local", "-r", self.name, "addprinc", "-randkey", principal)
        self.run("kadmin.local", "-r", self.name, "ktadd", "-k", str(path), principal)
        return path

    def foreign_keytab(self, principal: str) -> Path:
        """Return a keytab of a principal that no KDC knows."""
        path = self.folder / "foreign.keytab"
        words = f"addent -password -p {principal} -k 1 -e aes256-cts\nsecret\nwkt {path}\nquit\n"
        subprocess.run(
            [_program("ktutil")], input=words, env={**os.environ, **self.variables}, check=True, text=True
        )
        return path

    @contextmanager
    def running(self) -> Iterator[Realm]:
        """Make the database, and let the KDC run."""
        self.run("kdb5_util", "create", "-s", "-r", self.name, "-P", "master")
        variables = {**os.environ, **self.variables}
        kdc = subprocess.Popen([_program("krb5kdc"), "-n", "-r", self.name], env=variables)
        try:
            _wait_for(self.port)
            yield self
        finally:
            kdc.terminate()
            kdc.wait()


def broker(name: str, realm: Realm, keytab: Path, folder: Path) -> EmbeddedKafka:
    """Return a broker whose listeners with SASL take GSSAPI only."""
    login = f'{KRB5_LOGIN} useKeyTab=true storeKey=true keyTab="{keytab}" principal="{BROKER}@{realm.name}";'
    settings = {"sasl.kerberos.service.name": "kafka"}
    for listener in LISTENERS:
        prefix = f"listener.name.{listener.lower()}"
        settings |= {
            f"{prefix}.sasl.enabled.mechanisms": "GSSAPI",
            f"{prefix}.gssapi.sasl.jaas.config": login,
        }
    jvm = (*quick_start(KAFKA_VERSION), f"-Djava.security.krb5.conf={realm.config}")
    return EmbeddedKafka(name, folder, listeners=LISTENERS, settings=settings, jvm=jvm)


def login(keytab: Path | str, service: str = "kafka", **options: str) -> dict[str, str]:
    """Return the lines of a client's login: Java's entry with a keytab, and `options` of it that differ."""
    given = {"useKeyTab": "true", "storeKey": "true", "keyTab": str(keytab)}
    given |= {"principal": f"twinlog@{REALM}"} | options
    entry = " ".join(f'{key}="{value}"' for key, value in given.items())
    return {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": service,
        "sasl.jaas.config": f"{KRB5_LOGIN} {entry};",
    }


def over_tls(clusters: tuple[EmbeddedKafka, EmbeddedKafka], folder: Path) -> dict[str, str]:
    """Return the lines that let a client trust both clusters."""
    authorities = folder / "authorities.pem"
    authorities.write_text("".join(it.certificates.ca.read_text() for it in clusters))
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authorities),
    }


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    """A realm that this process, and those it starts, are in; they have no ticket cache."""
    if why := missing():
        pytest.skip(why)
    with Realm(tmp_path_factory.mktemp("realm")).running() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.variables.items():
            patch.setenv(name, value)
        yield running


@pytest.fixture(scope="module")
def keytabs(realm: Realm) -> dict[str, Path]:
    """The brokers' keytab and that of `twinlog`."""
    return {name: realm.keytab(name) for name in (BROKER, "twinlog")}


@pytest.fixture(scope="module")
def kerberos_clusters(
    realm: Realm, keytabs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[EmbeddedKafka, EmbeddedKafka]]:
    """KA and KB."""
    folder = tmp_path_factory.mktemp("clusters")
    with (
        broker("KA", realm, keytabs[BROKER], folder / "KA") as source,
        broker("KB", realm, keytabs[BROKER], folder / "KB") as target,
    ):
        yield source, target


@pytest.fixture
def kerberos_file(
    kerberos_clusters: tuple[EmbeddedKafka, EmbeddedKafka], keytabs: dict[str, Path], tmp_path: Path
) -> Callable[..., Path]:
    """Write the file of a flow KA->KB with Java's login entry, as a function of topic, login and other lines."""

    def write(topic: str = "none", lines: dict[str, str] | None = None, **options: str) -> Path:
        source, target = kerberos_clusters
        found = {
            "clusters": "KA, KB",
            "KA.bootstrap.servers": source.address("SASL_PLAINTEXT"),
            "KB.bootstrap.servers": target.address("SASL_PLAINTEXT"),
            "KA->KB.enabled": "true",
            "security.protocol": "SASL_PLAINTEXT",
            "topics": topic,
            "replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "heartbeats.replication.enabled": "false",
            **login(options.pop("keyTab", keytabs["twinlog"]), **options),
            **(lines or {}),
        }
        path = tmp_path / "mm2.properties"
        path.write_text("".join(f"{name} = {value}\n" for name, value in found.items()))
        return path

    return write


def _program(name: str) -> str:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"no KDC at {port}")
