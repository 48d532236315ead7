"""Fetch Kafka's own jars once from Maven Central, and check them at every use.

The Ivy jar in pyspark fetches them, so only Java is needed.  A jar set lives in one folder of the user's cache beside
a manifest of sizes and SHA-256 sums that is written last.  A folder without a manifest, or one that does not agree
with it, is incomplete or damaged and is fetched again.  Concurrent fetches wait for each other on a file lock.

Cost: about 30 s and 35-46 MB per set once; 0.1 s per check.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import logging
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from twinlog.errors import TerminalError, TransientError
from twinlog.lab.kafka.java import find_java, run

_log = logging.getLogger(__name__)

KAFKA_VERSION = "4.4.0"
MIRROR_MAKER_VERSION = "4.3.1"
"""The newest whose `connect-mirror` Maven Central has."""

OLDER_KAFKA_VERSION = "3.9.2"
"""The newest 3.9 release, used by the compatibility tests."""

_KRAFT = (3, 3)
_FIRST_OF_SCALA_2_13 = (2, 4)
_MANIFEST = "manifest.json"
_FETCH_TIMEOUT_S = 600
_SLF4J_SIMPLE = ("org.slf4j", "slf4j-simple", "1.7.36")
"""A logging back end, which Kafka's jars lack; this one writes to stderr, which is kept as the log."""

_OTHER_LOGGING = ("slf4j-log4j12", "slf4j-reload4j")
"""Logging back ends that Connect before 4.0 brings along: which of two is used depends on the order of files."""

_LOG4J = ("ch.qos.reload4j", "reload4j", "1.2.25")
"""Log4j 1.2, whose classes brokers before 3.3 load to let their log levels be changed."""

_ZOOKEEPER = ("org.apache.zookeeper", "zookeeper", "3.5.9")
"""The oldest whose client finds its server on Java 14 and newer (ZOOKEEPER-3779); Kafka before 2.4 comes with 3.4."""

_DIGESTS = {
    "kafka-4.4.0": "a74f29a9e5866225a98939e3a8e02539ef4001252b71a0fb3d3fbcf43c447de6",
    "kafka-tools-4.4.0": "3b3d02262a1f5e803a668b0c6496a850741cc95b290f05107b361e6dfe228d86",
    "mirror-maker-4.3.1": "08ea12bad4e6c10ff1efc7b392db8cfb3d39de763f590cf11a715b542f955111",
}
"""What the manifests of the sets that the demo runs are: of other sets, what arrives first counts."""


@dataclass(frozen=True)
class JarSet:
    """A class path by name: Maven coordinates (organisation, name, version), resolved transitively."""

    name: str
    coordinates: tuple[tuple[str, str, str], ...]


def broker_jars(version: str = KAFKA_VERSION) -> JarSet:
    """Return the jar set of a Kafka broker of `version`; one that needs ZooKeeper brings it along."""
    scala = "2.13" if release(version) >= _FIRST_OF_SCALA_2_13 else "2.12"
    broker = ("org.apache.kafka", f"kafka_{scala}", version)
    beside = (_LOG4J, _ZOOKEEPER) if needs_zookeeper(version) else ()
    return JarSet(f"kafka-{version}", (broker, *beside, _SLF4J_SIMPLE))


def release(version: str) -> tuple[int, int]:
    """Return major and minor release of a Kafka version: (2, 8) for "2.8.2"."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def needs_zookeeper(version: str) -> bool:
    """Say whether brokers of `version` cannot do without ZooKeeper: KRaft is ready from 3.3 on (KIP-833)."""
    return release(version) < _KRAFT


def mirror_maker_jars(version: str = MIRROR_MAKER_VERSION) -> JarSet:
    """Return the set with MirrorMaker 2's dedicated mode and RemoteClusterUtils."""
    modules = ("connect-mirror", "connect-runtime", "connect-json")
    coordinates = tuple(("org.apache.kafka", module, version) for module in modules)
    return JarSet(f"mirror-maker-{version}", (*coordinates, _SLF4J_SIMPLE))


def tools_jars(version: str = KAFKA_VERSION) -> JarSet:
    """Return the set with Kafka's console tools (`org.apache.kafka.tools.*`)."""
    return JarSet(f"kafka-tools-{version}", (("org.apache.kafka", "kafka-tools", version), _SLF4J_SIMPLE))


def default_cache() -> Path:
    """Return the folder that holds all jar sets of this user."""
    return platformdirs.user_cache_path("twinlog") / "jars"


def class_path(
    jars: JarSet, cache: Path | None = None, fetch: Callable[[JarSet, Path], None] | None = None
) -> str:
    """Return Java's class path of `jars`; first fetch them if the cache lacks them or holds only a part.

    Raises TransientError (code `jars`) if Maven Central cannot be reached, TerminalError if Java or the Ivy jar is
    missing or the coordinates do not exist.
    """
    folder = (cache or default_cache()) / jars.name
    if not is_whole(folder):
        with _locked(folder.with_name(f"{folder.name}.lock")):
            if not is_whole(folder):  # another process may have fetched them meanwhile
                _refetch(jars, folder, fetch or fetch_with_ivy)
    return str(folder / "*")


def is_whole(folder: Path) -> bool:
    """Say whether exactly the jars in the manifest are there, with their sizes and SHA-256 sums."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        return bool(manifest == _describe(folder)) and _are_ours(folder.name, manifest)
    except (OSError, ValueError):
        return False


def _are_ours(name: str, manifest: Mapping[str, object]) -> bool:
    """Say whether these are the jars that this release was tested with, if it knows them."""
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    return _DIGESTS.get(name, digest) == digest


def _describe(folder: Path) -> dict[str, dict[str, int | str]]:
    described: dict[str, dict[str, int | str]] = {}
    for jar in sorted(folder.glob("*.jar")):
        with jar.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        described[jar.name] = {"size": jar.stat().st_size, "sha256": digest}
    return described


def _refetch(jars: JarSet, folder: Path, fetch: Callable[[JarSet, Path], None]) -> None:
    """Fetch into a new folder beside the set's and move it in whole, so that a kill leaves no partial set."""
    # At warning level: a person waits for half a minute and wants to know why.
    _log.warning("fetching the jars of %s from Maven Central, once (about 30 s)", jars.name)
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{jars.name}-", dir=folder.parent) as work:
        arrived = Path(work, "jars")
        arrived.mkdir()
        fetch(jars, arrived)
        manifest = _describe(arrived)
        if not manifest:
            raise TransientError(f"no jar of {jars.name} arrived", hint="try again", code="jars")
        if not _are_ours(jars.name, manifest):
            raise TerminalError(
                f"the jars of {jars.name} that arrived are not those that twinlog was tested with",
                hint="find out what lies between this machine and Maven Central; Java was not started with them",
                code="jars",
            )
        (arrived / _MANIFEST).write_text(json.dumps(manifest, indent=1))
        arrived.rename(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetch_with_ivy(jars: JarSet, folder: Path) -> None:
    """Put `jars` and all their dependencies into `folder`; a failing download is tried three times."""
    attempts = Retrying(
        stop=stop_after_attempt(3),
        wait=wait_fixed(5),
        retry=retry_if_exception_type(TransientError),
        reraise=True,
    )
    attempts(_run_ivy, jars, folder)


def _run_ivy(jars: JarSet, folder: Path) -> None:
    java, ivy = find_java().path, ivy_jar()
    with tempfile.TemporaryDirectory(prefix="ivy-", dir=folder.parent) as work:
        module = Path(work, "ivy.xml")
        module.write_text(_module_description(jars))
        pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
        tool = (java, "-jar", ivy, "-cache", f"{work}/cache", "-ivy", module, "-confs", "default")
        try:
            answer = run((*tool, "-retrieve", pattern, "-types", "jar", "bundle"), _FETCH_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise _not_fetched(jars, f"no answer in {_FETCH_TIMEOUT_S} s") from None
    if answer.returncode:
        raise _not_fetched(jars, _reason(answer.stdout + answer.stderr))


def _not_fetched(jars: JarSet, reason: str) -> TransientError:
    return TransientError(
        f"the jars of {jars.name} could not be fetched from Maven Central: {reason}",
        hint="check the network (Java reads its proxy from JAVA_TOOL_OPTIONS) and run the command again",
        code="jars",
    )


def _reason(output: str) -> str:
    """Return Ivy's own message: its last line about a failed artifact, else its last line."""
    lines = [line.strip(" \t:") for line in output.splitlines() if line.strip(" \t:")]
    telling = [line for line in lines if "not found" in line or "FAILED" in line or "Exception" in line]
    return (telling or lines or ["Ivy failed without a word"])[-1]


def _module_description(jars: JarSet) -> str:
    dependencies = "".join(
        f'<dependency org="{organisation}" name="{name}" rev="{version}" conf="default"/>'
        for organisation, name, version in jars.coordinates
    )
    unwanted = "".join(f'<exclude module="{module}"/>' for module in _OTHER_LOGGING)
    info = f'<info organisation="twinlog" module="{jars.name}"/>'
    return (
        f'<ivy-module version="2.0">{info}<dependencies>{dependencies}{unwanted}</dependencies></ivy-module>'
    )


def ivy_jar() -> Path:
    """Find the Ivy jar of the installed pyspark.  Raises TerminalError if there is none."""
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        for jar in sorted(Path(location, "jars").glob("ivy-*.jar")):
            return jar
    raise TerminalError("pyspark's Ivy jar is not installed", hint="run make setup", code="jars")
