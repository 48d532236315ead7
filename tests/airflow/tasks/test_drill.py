"""Read the form of a drill, and refuse groups that there are not."""

from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.airflow.tasks.drill import _groups, require_a_group
from twinlog.errors import UsageError


def report(groups: tuple[str, ...] = (), not_drilled: tuple[str, ...] = ()) -> Any:
    return SimpleNamespace(groups=groups, not_drilled=not_drilled)


def test_a_pattern_that_is_no_regex_is_a_mistake_in_the_form() -> None:
    """It names the field; a ConfigError would be taken for one of the file, and sound the alarm."""
    assert _groups("billing.*").accepts("billing-1")
    with pytest.raises(UsageError, match=r"^groups: the regular expression '\('"):
        _groups("(")


def test_groups_that_there_are_not_fail_the_run() -> None:
    """It drilled nothing; skipped, the run would be a success."""
    with pytest.raises(UsageError, match="no group with a position matches 'biling'"):
        require_a_group("biling", report())


@pytest.mark.parametrize(
    ("pattern", "found"),
    [(".*", report()), ("billing", report(("billing",))), ("billing", report((), ("billing",)))],
    ids=["scheduled", "drilled", "not drilled"],
)
def test_other_drills_end_as_they_did(pattern: str, found: Any) -> None:
    """A flow without groups has nothing to drill, and a group that was left out is named."""
    require_a_group(pattern, found)
