"""A real Kerberos realm: MIT's KDC in a folder of its own, on a free port of 127.0.0.1, with principals and keytabs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from twinlog.lab.kafka.broker import EmbeddedKafka, quick_start
from twinlog.lab.kafka.jars import KAFKA_VERSION

REALM = "TWINLOG.TEST"
KRB5_LOGIN = "com.sun.security.auth.module.Krb5LoginModule required"
BROKER = "kafka/127.0.0.1"
_LISTENER = "listener.name.sasl_plaintext"


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


def broker(name: str, realm: Realm, keytab: Path, folder: Path, **settings: str) -> EmbeddedKafka:
    """Return a broker whose SASL_PLAINTEXT listener takes GSSAPI only."""
    login = f'{KRB5_LOGIN} useKeyTab=true storeKey=true keyTab="{keytab}" principal="{BROKER}@{realm.name}";'
    return EmbeddedKafka(
        name,
        folder,
        listeners=("SASL_PLAINTEXT",),
        settings={
            f"{_LISTENER}.sasl.enabled.mechanisms": "GSSAPI",
            f"{_LISTENER}.gssapi.sasl.jaas.config": login,
            "sasl.kerberos.service.name": "kafka",
            **settings,
        },
        jvm=(*quick_start(KAFKA_VERSION), f"-Djava.security.krb5.conf={realm.config}"),
    )


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
