"""Files of the service that runs for a home: `<home>/.service/`; no backup takes them, every delete searches them."""

from collections.abc import Callable, Collection
from pathlib import Path

FOLDER = ".service"
LOG = "service.log"
OLDER_LOG = "service.log.1"
RECORD = "service.json"


def service_folder(home: Path) -> Path:
    """Returns the folder of the service's files, which need not exist."""
    return home / FOLDER


def make_service_folder(home: Path) -> Path:
    """Returns the folder of the service's files, made where it is not there, for its owner alone."""
    folder = service_folder(home)
    folder.mkdir(exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    return folder


def erase_service_log(home: Path, rows_of: Callable[[list[str]], Collection[int]]) -> None:
    """Removes lines from the service's logs, in place: the service goes on writing to the same file.

    Args:
        home: the home.
        rows_of: returns the numbers of the lines to remove.
    """
    for name in (LOG, OLDER_LOG):
        path = service_folder(home) / name
        if not path.is_file() or path.is_symlink():
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        if gone := set(rows_of(lines)):
            kept = "".join(f"{line}\n" for i, line in enumerate(lines) if i not in gone)
            with path.open("r+", encoding="utf-8") as f:
                f.write(kept)
                f.truncate()
