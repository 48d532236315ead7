"""A real schema registry: Apicurio Registry from Maven Central, with a database in memory.

The archives are fetched once into the user's cache, and compared with their SHA-512 at every use.  Cost: about 160 MB
once, and 10 s for each start (50 s on a machine with other work).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import pytest
import requests

from twinlog.lab.kafka.java import version_of
from twinlog.lab.kafka.ports import free_ports
from twinlog.lab.kafka.process import JavaProcess

_PLACE = "https://repo1.maven.org/maven2/io/apicurio/apicurio-registry-app"
_START_SECONDS = 180.0
_JAVAS = (Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines"))


@dataclass(frozen=True)
class Release:
    """A release: its version, the digest of its archive, the jar that starts it, and the Java that it needs."""

    version: str
    sha512: str
    jar: str
    java: int


IMPORTS_NOTHING = Release(
    "3.3.3",
    "dd081e0bb14bb94ac9806eb768667b10a7292a8a75a81cbbfec1c99d920bc35697fc5e567d74b7bf94a0105648b90480842822959815d2965e0dc6"
    "c9524c92d3",
    "quarkus-run.jar",
    21,
)
"""Keeps modes, and gives ids of its own."""

KNOWS_NO_MODES = Release(
    "3.0.9",
    "1ed16d7284599c705a1ccbc551b307064990eb1f58c340e37eedc80716f24aba6216b85db35bc6c1651e44fdfd3598c4c6daa082f18e020e6b8f1"
    "92036e609c0",
    "apicurio-registry-app-3.0.9-runner.jar",
    17,
)


def _java(oldest: int) -> Path:
    """Return a Java of this release or a newer one; skip the test if this machine has none."""
    home = os.environ.get("JAVA_HOME")
    found = [Path(home) / "bin" / "java"] if home else []
    found += [Path(it)] if (it := shutil.which("java")) else []
    for folder in _JAVAS:
        found += [*sorted(folder.glob("*/bin/java")), *sorted(folder.glob("*/Contents/Home/bin/java"))]
    for java in found:
        if version_of(java) >= oldest:
            return java
    pytest.skip(f"Apicurio needs Java {oldest} or newer")


def _unpacked(release: Release, folder: Path) -> Path:
    """Return a folder with the release, fetched if the cache does not have it as it should be."""
    name = f"apicurio-registry-app-{release.version}-all.tar.gz"
    archive = platformdirs.user_cache_path("twinlog") / "apicurio" / name
    if not archive.is_file() or _digest(archive) != release.sha512:
        archive.parent.mkdir(parents=True, exist_ok=True)
        part = archive.with_name(f"{name}.{os.getpid()}")
        with requests.get(f"{_PLACE}/{release.version}/{name}", stream=True, timeout=60) as answer:
            answer.raise_for_status()
            with part.open("wb") as out:
                for chunk in answer.iter_content(1 << 20):
                    out.write(chunk)
        assert release.sha512 == _digest(part), f"{name} is not what it was"
        part.replace(archive)
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    return folder


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha512").hexdigest()


@contextmanager
def running(release: Release, folder: Path, count: int = 1) -> Iterator[list[str]]:
    """Start registries of a release, each with nothing in it, and yield the addresses of their Confluent API."""
    java = _java(release.java)
    home = _unpacked(release, folder)
    ports, processes, urls = free_ports(), [], []
    try:
        for number in range(count):
            port, management = next(ports), next(ports)
            command = [
                *(java, "-XX:TieredStopAtLevel=1", f"-Dquarkus.http.port={port}"),
                *("-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.management.port={management}"),
                f"-Dapicurio.datasource.url=jdbc:h2:mem:registry{number}",
                *("-jar", home / release.jar),
            ]
            processes.append(JavaProcess(command, folder / f"registry-{number}.log"))
            urls.append(f"http://127.0.0.1:{port}/apis/ccompat/v7")
        for url, process in zip(urls, processes, strict=True):
            _wait_for(url, process)
        yield urls
    finally:
        for process in processes:
            process.stop()


def _wait_for(url: str, process: JavaProcess) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        assert process.is_running(), process.output()[-2000:]
        try:
            if requests.get(f"{url}/subjects", timeout=5).ok:
                return
        except requests.RequestException:
            time.sleep(0.2)
    raise AssertionError(f"{url} did not answer in {_START_SECONDS:.0f} s: {process.output()[-2000:]}")
