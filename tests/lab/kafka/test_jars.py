"""The jar cache, with a fetch of our own in place of Maven Central."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from twinlog.errors import TransientError
from twinlog.lab.kafka.jars import (
    _DIGESTS,
    JarSet,
    _module_description,
    _reason,
    broker_jars,
    class_path,
    ivy_jar,
    mirror_maker_jars,
    tools_jars,
)

JARS = JarSet("some-1.0", (("org", "some", "1.0"),))


class Shop:
    """Delivers two jars and counts how often; `breaks_after` deliveries end half-way."""

    def __init__(self, breaks: int = 0) -> None:
        self.deliveries = 0
        self._breaks = breaks

    def fetch(self, jars: JarSet, folder: Path) -> None:
        self.deliveries += 1
        (folder / "a.jar").write_bytes(b"a" * 100)
        if self.deliveries <= self._breaks:
            raise TransientError("the line went dead")
        (folder / "b.jar").write_bytes(b"b" * 100)


def test_a_whole_set_is_fetched_once(tmp_path):
    """The second use of a set takes it from the cache."""
    shop = Shop()
    paths = {class_path(JARS, tmp_path, shop.fetch) for _ in range(3)}
    assert ({str(tmp_path / "some-1.0" / "*")}, 1) == (paths, shop.deliveries)


@pytest.mark.parametrize(
    "damage", ["shorter", "other bytes", "missing", "extra", "no manifest", "bad manifest"]
)
def test_a_damaged_set_is_fetched_again(tmp_path, damage):
    """Whatever happened to the folder, the class path has the very jars that were delivered."""
    shop, folder = Shop(), tmp_path / "some-1.0"
    class_path(JARS, tmp_path, shop.fetch)
    match damage:
        case "shorter":
            (folder / "a.jar").write_bytes(b"a" * 99)
        case "other bytes":
            (folder / "a.jar").write_bytes(b"x" * 100)
        case "missing":
            (folder / "b.jar").unlink()
        case "extra":
            (folder / "stranger.jar").write_bytes(b"?")
        case "no manifest":
            (folder / "manifest.json").unlink()
        case "bad manifest":
            (folder / "manifest.json").write_text('{"a.jar":')
    class_path(JARS, tmp_path, shop.fetch)
    jars = {jar.name: jar.read_bytes() for jar in folder.glob("*.jar")}
    assert ({"a.jar": b"a" * 100, "b.jar": b"b" * 100}, 2) == (jars, shop.deliveries)


def test_a_fetch_that_fails_half_way_leaves_nothing(tmp_path):
    """After a failed fetch the cache is as empty as before, and the next one starts anew."""
    shop = Shop(breaks=1)
    with pytest.raises(TransientError):
        class_path(JARS, tmp_path, shop.fetch)
    assert ["some-1.0.lock"] == [left.name for left in tmp_path.iterdir()]
    class_path(JARS, tmp_path, shop.fetch)
    assert 2 == shop.deliveries


def test_concurrent_users_fetch_once(tmp_path):
    """Users that need a set at the same moment wait for one fetch."""
    shop = Shop()
    users = [threading.Thread(target=class_path, args=(JARS, tmp_path, shop.fetch)) for _ in range(8)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert 1 == shop.deliveries


def test_ivy_is_asked_for_every_coordinate():
    """The module description names each artifact of the set."""
    description = _module_description(mirror_maker_jars("4.3.1"))
    names = ("connect-mirror", "connect-runtime", "connect-json", "slf4j-simple")
    assert [True] * 4 == [f'name="{name}"' in description for name in names]
    assert '<exclude module="slf4j-log4j12"/>' in description, "it would print nothing"


def test_the_reason_is_ivys_own_line():
    """Of Ivy's banner only the line that names the artifact is shown."""
    output = "::::\n\t:: org.apache.kafka#kafka_2.13;9.9.9: not found\n::::\n\n:: USE VERBOSE ::\n"
    assert "org.apache.kafka#kafka_2.13;9.9.9: not found" == _reason(output)


def test_pyspark_carries_ivy():
    """The pinned pyspark has the Ivy jar where we look for it."""
    assert ivy_jar().is_file()


@pytest.mark.parametrize(
    ("version", "broker", "with_zookeeper"),
    [("2.0.1", "kafka_2.12", True), ("2.4.1", "kafka_2.13", True), ("3.9.2", "kafka_2.13", False)],
)
def test_a_broker_of_old_brings_what_it_lacks(version: str, broker: str, with_zookeeper: bool):
    """Kafka before 2.4 has no build for Scala 2.13; before 3.3 it needs a ZooKeeper that runs on today's Java."""
    names = {name for _, name, _ in broker_jars(version).coordinates}
    assert broker in names
    assert with_zookeeper == ({"zookeeper", "reload4j"} <= names)


def test_sets_of_two_versions_do_not_share_a_folder():
    """A set's name tells the version."""
    assert "kafka-4.3.1" == broker_jars("4.3.1").name != broker_jars("3.9.2").name


def test_what_the_demo_runs_is_known_jar_by_jar():
    """Of the versions of today; those of another version would be taken as they arrive."""
    assert {it.name for it in (broker_jars(), tools_jars(), mirror_maker_jars())} == set(_DIGESTS)
