"""A user's function is found by its name, known by its source, and loaded only if that is the one that was read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from twinlog.transforms.function import NoFunctionError, load_function, read_function

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a module that can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def writing(name: str, text: str) -> None:
        path = tmp_path / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    return writing


def test_a_function_of_a_package_is_loaded(write: Write) -> None:
    """As often as one likes."""
    write("of_acme.__init__", "")
    write("of_acme.cleaning", "def clean(batch):\n    return batch + 1\n")
    function = read_function("python:of_acme.cleaning.clean")
    assert [2, 2] == [load_function(function)(1) for _ in range(2)]


def test_the_version_is_the_source_and_what_the_module_declares(write: Write) -> None:
    """A comment more is another version; names and topics are no part of what a function does."""
    write("of_versions", "def f(batch):\n    pass\n")
    first = read_function("python:of_versions.f", ("a",))
    write("of_versions", "__version__ = '2'\ndef f(batch):\n    pass\n")
    second = read_function("python:of_versions.f", ("b",))
    assert ("", "2") == (first.version, second.version)
    assert first.description != second.description
    assert first.description == read_again(write).description


def read_again(write: Write):
    """Read the first source once more, for other topics."""
    write("of_versions", "def f(batch):\n    pass\n")
    return read_function("python:of_versions.f", ("c",))


def test_a_module_that_changed_after_it_was_read_is_refused(write: Write) -> None:
    """Before it is imported, and as long as a process lives that has imported another source."""
    write("of_change", "def f(batch):\n    return 1\n")
    old = read_function("python:of_change.f")
    write("of_change", "def f(batch):\n    return 2\n")
    new = read_function("python:of_change.f")
    with pytest.raises(NoFunctionError, match="is not the one that the configuration was read with"):
        load_function(old)
    assert 2 == load_function(new)(None)
    write("of_change", "def f(batch):\n    return 1\n")
    with pytest.raises(NoFunctionError, match="is not the one"):
        load_function(old)
    assert 2 == load_function(new)(None)


def test_a_module_that_fails_on_import_is_one_line(write: Write) -> None:
    """What it lacks is in it."""
    write("of_failure", "import not_installed\ndef f(batch):\n    pass\n")
    function = read_function("python:of_failure.f")
    with pytest.raises(
        NoFunctionError, match="of_failure cannot be imported: ModuleNotFoundError"
    ) as refused:
        load_function(function)
    assert "wherever Spark's workers run" in refused.value.hint


def test_a_module_that_is_no_python_is_refused_with_its_line(write: Write) -> None:
    """When the file is read."""
    write("of_syntax", "def f(batch):\n    return (\n")
    with pytest.raises(NoFunctionError, match=r"of_syntax cannot be read: .*, line 2"):
        read_function("python:of_syntax.f")
