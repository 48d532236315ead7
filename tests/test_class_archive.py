"""When a JVM is given an archive of classes, and when not."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from twinlog.class_archive import ClassArchive

CONTENT = b"classes"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark.jar").write_bytes(b"jar")
    (tmp_path / "java").write_bytes(b"java")
    return ClassArchive("spark", tmp_path / "java", tmp_path / "jars")


def _written_by(options: Sequence[str]) -> Path:
    """Return the file that a JVM with these options writes at its end."""
    return Path(options[0].removeprefix("-XX:ArchiveClassesAtExit="))


def _jvm(options: Sequence[str]) -> None:
    _written_by(options).write_bytes(CONTENT)


def test_an_archive_is_used_once_it_was_made(archive: ClassArchive) -> None:
    """A JVM is given nothing before."""
    assert () == archive.options()
    assert archive.make(_jvm)
    assert f"-XX:SharedArchiveFile={archive.file}" == archive.options()[0]
    assert CONTENT == archive.file.read_bytes()


def _shorten(archive: ClassArchive) -> None:
    archive.file.write_bytes(CONTENT[:-1])


def _upgrade_a_jar(archive: ClassArchive) -> None:
    (archive.jars / "spark.jar").write_bytes(b"newer jar")


def _touch_a_jar(archive: ClassArchive) -> None:
    os.utime(archive.jars / "spark.jar", (1, 1))


def _add_a_jar(archive: ClassArchive) -> None:
    (archive.jars / "another.jar").write_bytes(b"")


def _upgrade_java(archive: ClassArchive) -> None:
    archive.java.write_bytes(b"another java")


def _lose_it(archive: ClassArchive) -> None:
    archive.file.unlink()


def _garble_the_manifest(archive: ClassArchive) -> None:
    archive.file.with_suffix(".json").write_text("{")


@pytest.mark.parametrize(
    "change",
    [
        _shorten,
        _upgrade_a_jar,
        _touch_a_jar,
        _add_a_jar,
        _upgrade_java,
        _lose_it,
        _garble_the_manifest,
    ],
)
def test_what_does_not_fit_any_more_is_not_used_and_made_anew(
    archive: ClassArchive, change: Callable[[ClassArchive], None]
) -> None:
    """A JVM dies of a shortened archive, and would start for nothing with one of other jars."""
    archive.make(_jvm)
    change(archive)
    assert () == archive.options()
    assert archive.make(_jvm)
    assert archive.is_usable()


def test_one_that_fits_is_not_made_again(archive: ClassArchive) -> None:
    """A process that waited for another one to make it has nothing left to do."""
    archive.make(_jvm)
    assert archive.make(lambda _: pytest.fail("a JVM was started"))


def test_a_jvm_that_dies_as_it_writes_leaves_nothing(archive: ClassArchive) -> None:
    """Neither an archive nor a part of one."""

    def dies(options: Sequence[str]) -> None:
        _jvm(options)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        archive.make(dies)
    assert () == archive.options()
    assert [archive.file.with_suffix(".lock")] == list(archive.file.parent.iterdir())


def test_a_java_that_writes_none_is_told(archive: ClassArchive) -> None:
    """Other JVMs than OpenJDK ignore the option, or write nothing."""
    assert not archive.make(lambda _: None)
    assert () == archive.options()
