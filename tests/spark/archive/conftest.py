"""Archives that hold a manifest alone."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from twinlog.spark.archive.manifest import MANIFEST, Manifest, running_python, this_platform
from twinlog.spark.build import BUILD


@pytest.fixture
def ours() -> Manifest:
    """The manifest of an archive that was made here."""
    return Manifest(BUILD, running_python(), this_platform(), {"numpy": "2.0"})


@pytest.fixture
def archive(tmp_path: Path) -> Callable[..., Path]:
    """`archive(manifest)` writes one, and returns its place."""

    def write(manifest: Manifest, name: str = MANIFEST) -> Path:
        file = tmp_path / "twinlog.tar.gz"
        with tarfile.open(file, "w:gz") as tar:
            entry = tarfile.TarInfo(name)
            text = manifest.as_json().encode()
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
        return file

    return write
