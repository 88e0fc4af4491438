"""Which process runs in the background for a home: its id with the time of its start, and where it listens."""

from dataclasses import asdict, dataclass
from pathlib import Path

from palimpsest.core.errors import DamagedFile
from palimpsest.core.processes import process_started
from palimpsest.core.sealed_json import read_sealed_json, write_sealed_json
from palimpsest.store.service_files import service_folder

_FIX = "stop the process by its id, if it runs, and remove the file"


@dataclass(frozen=True)
class ProcessRecord:
    """A process as it was started.

    Attributes:
        pid: its process id.
        started: when that process began; another process may get its id later.
        host: where it listens.
        port: where it listens.
        backend: duckdb or neo4j.
    """

    pid: int
    started: str
    host: str
    port: int
    backend: str

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self.host}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether that very process still runs."""
        return process_started(self.pid) == self.started


def write_record(home: Path, name: str, record: ProcessRecord) -> None:
    """Writes the record of a component of a home."""
    path = record_path(home, name)
    write_sealed_json(path, asdict(record))
    path.chmod(0o600)


def read_record(home: Path, name: str) -> ProcessRecord | None:
    """Returns the record of a component of a home; None where it was stopped, or never started.

    Raises:
        DamagedFile: the record is damaged, or a link.
    """
    path = record_path(home, name)
    if path.is_symlink() or path.parent.is_symlink():
        raise DamagedFile(path, _FIX)
    if (found := read_sealed_json(path, _FIX)) is None:
        return None
    try:
        return ProcessRecord(
            int(str(found["pid"])),
            str(found["started"]),
            str(found["host"]),
            int(str(found["port"])),
            str(found["backend"]),
        )
    except (LookupError, TypeError, ValueError):
        raise DamagedFile(path, _FIX) from None


def remove_record(home: Path, name: str) -> None:
    """Removes the record of a component of a home."""
    record_path(home, name).unlink(missing_ok=True)


def record_path(home: Path, name: str) -> Path:
    """Returns the file of the record of a component of a home."""
    return service_folder(home) / f"{name}.json"
