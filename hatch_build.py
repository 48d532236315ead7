"""Note in an sdist and in a wheel which commit they were built from, for `twinlog --version`."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NOTE = "COMMIT"


class CommitHook(BuildHookInterface):
    """Add the note to what is built; an editable install asks git when it is used."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Find the commit in git, or in the note of the sdist that a wheel is built from."""
        if version == "editable":
            return
        place = NOTE if self.target_name == "sdist" else f"twinlog/_shipped/{NOTE}"
        noted = Path(self.root, NOTE)
        if not noted.is_file():
            self._folder = tempfile.TemporaryDirectory()
            noted = Path(self._folder.name, NOTE)
            shipped = runpy.run_path(str(Path(self.root, "include", "twinlog", "shipped.py")))
            noted.write_text(shipped["commit"]())
        build_data["force_include"][str(noted)] = place
