"""Files of what runs in the background for a home: `<home>/.service/`; no backup takes them, deletes search them."""

from collections.abc import Callable, Collection
from pathlib import Path

FOLDER = ".service"
OLDER = ".1"
"""Suffix of the older file of a log."""


def service_folder(home: Path) -> Path:
    """Returns the folder of these files, which need not exist."""
    return home / FOLDER


def make_service_folder(home: Path) -> Path:
    """Returns the folder of these files, made where it is not there, for its owner alone."""
    folder = service_folder(home)
    folder.mkdir(exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    return folder


def erase_service_logs(home: Path, rows_of: Callable[[list[str]], Collection[int]]) -> None:
    """Removes lines from the logs, in place: who writes them goes on with the same file.

    Args:
        home: the home.
        rows_of: returns the numbers of the lines to remove.
    """
    for path in sorted(service_folder(home).glob("*.log*")):
        if not path.is_file() or path.is_symlink():
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        if gone := set(rows_of(lines)):
            kept = "".join(f"{line}\n" for i, line in enumerate(lines) if i not in gone)
            with path.open("r+", encoding="utf-8") as f:
                f.write(kept)
                f.truncate()
