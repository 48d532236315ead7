"""Build what a package of twinlog holds beside its sources: the kernel, compiled, and a note of the commit.

The kernel (include/twinlog/batches/plain/kernel.c) is compiled by `zig cc`, which the wheel `ziglang` brings for every
platform and to every platform: so a wheel holds a library for each of TARGETS and fits them all. An editable install
holds the one for its own machine, of the system's `cc` if there is no zig. Elsewhere twinlog does without, with numpy.

    python hatch_build.py    compile it for this machine, in this work tree (what an editable install does, too)
"""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NOTE: Final = "COMMIT"
PACKAGE: Final = Path("include", "twinlog")
KERNEL: Final = Path("batches", "plain")

TARGETS: Final = {
    "linux-x86_64": "x86_64-linux-gnu.2.17",
    "linux-aarch64": "aarch64-linux-gnu.2.17",
    "darwin-x86_64": "x86_64-macos.11.0",
    "darwin-aarch64": "aarch64-macos.11.0",
}
"""Platforms, named as twinlog/batches/plain/library.py does, as zig calls them: with the oldest system that will do."""

FLAGS: Final = ("-O3", "-s", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")


class BuildHook(BuildHookInterface):
    """Add both to what is built; an editable install asks git for its commit when it is used."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and find the commit in git, or in the note of the sdist that a wheel is built from."""
        root = Path(self.root)
        if version == "editable":
            compile_for_this_machine(root)
            return
        self._folder = tempfile.TemporaryDirectory()
        if self.target_name == "wheel":
            built = compile_for(root, TARGETS, Path(self._folder.name))
            places = {str(it): f"twinlog/{KERNEL.as_posix()}/_library/{it.name}" for it in built}
            build_data["force_include"].update(places)
        place = NOTE if self.target_name == "sdist" else f"twinlog/_shipped/{NOTE}"
        noted = root / NOTE
        if not noted.is_file():
            noted = Path(self._folder.name, NOTE)
            shipped = runpy.run_path(str(root / PACKAGE / "shipped.py"))
            noted.write_text(shipped["commit"]())
        build_data["force_include"][str(noted)] = place


def compile_for_this_machine(root: Path) -> None:
    """Compile the library that this work tree needs; none if this platform is not in TARGETS."""
    wanted = Path(_library(root)["library_file"]())
    targets = [name for name in TARGETS if name == wanted.stem]
    wanted.parent.mkdir(exist_ok=True)
    compile_for(root, targets, wanted.parent)


def compile_for(root: Path, targets: Iterable[str], folder: Path) -> list[Path]:
    """Compile a library for each target into `folder`, each whole or not at all; return their files."""
    digest = _library(root)["source_digest"]()
    source = root / PACKAGE / KERNEL / "kernel.c"
    built = []
    for name in targets:
        file = folder / f"{name}.so"
        unfinished = file.with_suffix(".new")
        command = [*_compiler(root, name), *FLAGS]
        command += [f'-DSOURCE_DIGEST="{digest}"', "-o", str(unfinished), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{source} could not be compiled for {name}: {' '.join(command)}\n{done.stderr}")
        unfinished.replace(file)
        built.append(file)
    return built


def _compiler(root: Path, name: str) -> list[str]:
    """Return zig's C compiler for a platform; without zig the system's, for this machine."""
    if find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc", "-target", TARGETS[name]]
    own = shutil.which("cc")
    if own is None or name != Path(_library(root)["library_file"]()).stem:
        raise SystemExit(
            f"no C compiler for {name}: pip install ziglang, or on this machine apt install gcc libc6-dev"
        )
    return [own]


def _library(root: Path) -> dict[str, Any]:
    """Return the names of library.py, which knows what libraries are called and what they are made of."""
    return runpy.run_path(str(root / PACKAGE / KERNEL / "library.py"))


if __name__ == "__main__":
    compile_for_this_machine(Path(__file__).resolve().parent)
