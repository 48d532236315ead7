"""`twinlog machine airflow`: bring Dags and plugin of an installed twinlog to an Airflow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from twinlog import __version__
from twinlog.cli.options import option
from twinlog.cli.render import Grid, show
from twinlog.errors import ExitCode, UsageError
from twinlog.shipped import folder

OURS = "# Installed by twinlog"


@dataclass(frozen=True)
class Installed:
    """A file of an Airflow's folder, and what became of it.

    `new`, `renewed`, `removed` if this version has none of that name, or `same` if there was nothing to do.
    """

    file: str
    state: str


def install(
    dags: Annotated[Path, option("--dags FOLDER", "Airflow's Dag folder.")],
    plugins: Annotated[Path, option("--plugins FOLDER", "Airflow's plugin folder.")],
) -> int:
    """Write twinlog's Dags and its plugin into the folders of an Airflow, and renew those of another version.

    Files of an older version that this one lacks are removed: their Dags would be there twice.

    A file of the same name that twinlog did not write is refused, and then nothing is written.

    Example: `twinlog machine airflow --dags FOLDER --plugins FOLDER`. Next: `twinlog check --machine`.
    """
    contents = {**_contents("dags", dags), **_contents("plugins", plugins)}
    for path in contents:
        if path.exists() and not path.read_text(errors="replace").startswith(OURS):
            raise UsageError(
                f"{path} is not twinlog's", "move it away, or choose another folder", code="foreign-file"
            )
    done = [_install(path, text) for path, text in contents.items()]
    for path in sorted((*dags.glob("*.py"), *plugins.glob("*.py"))):
        if path not in contents and path.read_text(errors="replace").startswith(OURS):
            path.unlink()
            done.append(Installed(str(path), "removed"))
    grid = Grid.of(
        "restart Airflow's scheduler, Dag processor and API server to load the plugin", "file | state", done
    )
    show({"version": __version__, "files": done}, [grid])
    return ExitCode.DONE


def _contents(name: str, place: Path) -> dict[Path, str]:
    if not place.is_dir():
        raise UsageError(f"--{name}: there is no folder {place}", "it is Airflow's: see airflow config list")
    shipped = folder("dags" if name == "dags" else "plugins")
    first = f"{OURS} {__version__}: `twinlog machine airflow` renews it.\n"
    return {place / path.name: first + path.read_text() for path in sorted(shipped.glob("*.py"))}


def _install(path: Path, text: str) -> Installed:
    before = path.read_text(errors="replace") if path.exists() else None
    if before == text:
        return Installed(str(path), "same")
    new = path.with_name(f".{path.name}.new")  # Airflow may read the folder at any moment
    new.write_text(text)
    new.replace(path)
    return Installed(str(path), "new" if before is None else "renewed")
