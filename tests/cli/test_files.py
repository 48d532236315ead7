"""Files that commands write beside their answers."""

from pathlib import Path

import pytest

from twinlog.cli.render import refuse_unwritable, written
from twinlog.errors import UsageError


def test_trying_leaves_nothing_and_changes_nothing(tmp_path: Path) -> None:
    """A new file is not there afterwards, an old one as it was."""
    old = tmp_path / "old"
    old.write_text("mine")
    for path in (old, tmp_path / "new", Path("/dev/stdout"), None):
        refuse_unwritable(path, "--save")
    assert [("old", "mine")] == [(it.name, it.read_text()) for it in tmp_path.iterdir()]


@pytest.mark.parametrize("path", ["/nowhere/x", "/proc/x", "/"])
def test_what_cannot_be_written_is_named_with_its_option(path: str) -> None:
    """The path, the reason, and what to check."""
    with pytest.raises(UsageError, match=f"{path} cannot be written: .+; check --save"):
        refuse_unwritable(Path(path), "--save")


def test_a_late_failure_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After the answer was shown there is nothing to raise for."""
    assert written(tmp_path / "x", b"x")
    assert not written(Path("/dev/full"), b"x")
    assert "error: /dev/full could not be written: No space left on device\n" == capsys.readouterr().err
